#pragma once

#include <cuda.h>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// An event; destroyed with this object, while its GPU's context is current.
class Event {
 public:
  Event() = default;
  ~Event() { reset(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Makes it; the GPU's context must be current.
  ///
  /// @param timed whether it knows when it was reached.
  Status create(bool timed = false) noexcept;

  void reset() noexcept;

  CUevent handle() const noexcept { return handle_; }

 private:
  CUevent handle_ = nullptr;
};

}  // namespace aoti_plugins::cuda
