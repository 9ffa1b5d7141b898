#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "slim/status.h"

namespace aoti_plugins {

/// A status that one thread finds out and others wait for; copies are the same one. What
/// std::shared_future does with symbols that the C++ library of manylinux_2_28 lacks.
class LaterStatus {
 public:
  /// Once, by the thread that knows it.
  void set(Status status) const {
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      state_->status = status;
      state_->is_set = true;
    }
    state_->changed.notify_all();
  }

  bool is_set() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->is_set;
  }

  /// Waits until it is set.
  Status get() const {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->is_set; });
    return state_->status;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    Status status = Status::kOk;
    bool is_set = false;
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace aoti_plugins
