#pragma once

#include <algorithm>

namespace aoti_plugins::cuda {

/// Says when what failed is tried again: after `first` calls, and after each further failure twice
/// as many. So the tries are few, however many calls there are.
class Backoff {
 public:
  explicit Backoff(int first) noexcept : next_(first) {}

  /// Asked once in each call that would try.
  bool may_try() noexcept {
    if (left_ == 0) {
      return true;
    }
    --left_;
    return false;
  }

  void failed() noexcept {
    left_ = next_;
    next_ = std::min(2 * next_, 1 << 20);
  }

 private:
  int next_;
  int left_ = 0;
};

}  // namespace aoti_plugins::cuda
