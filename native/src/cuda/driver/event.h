#pragma once

#include <cuda.h>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// An event without timing; destroyed with this object, while its GPU's context is current.
class Event {
 public:
  Event() = default;
  ~Event() { reset(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Makes it; the GPU's context must be current.
  Status create() noexcept;

  void reset() noexcept;

  CUevent handle() const noexcept { return handle_; }

 private:
  CUevent handle_ = nullptr;
};

}  // namespace aoti_plugins::cuda
