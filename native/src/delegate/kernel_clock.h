#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <chrono>
#include <cstdint>

#include "slim/export.h"

namespace aoti_plugins {

/// Nanoseconds of the steady clock.
inline int64_t steady_now_ns() noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

/// Times the kernels of one call on a device that works beside the thread that calls them. A call
/// is `start`, `kernel_begins` and `kernel_ends` around each kernel, `stop`.
class AOTIP_CORE KernelClock {
 public:
  virtual ~KernelClock();

  virtual void start() noexcept = 0;

  /// `name` lives as long as the program.
  virtual void kernel_begins(const char* name) noexcept = 0;
  virtual void kernel_ends() noexcept = 0;

  /// The device has got all of the call's work, or the call failed: waits for it, and tells the
  /// tracer when each kernel ran, in nanoseconds of the steady clock: ExecuTorch's ticks, where no
  /// other platform is registered. The log says why kernels could not be timed.
  virtual void stop(::executorch::runtime::EventTracer& tracer) noexcept = 0;
};

}  // namespace aoti_plugins
