#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include "delegate/delegate_device.h"
#include "delegate/kernel_clock.h"

namespace aoti_plugins {

/// While one lives, the kernels that this thread calls are told to a tracer, each as an event of
/// the delegate with the kernel's name: when the thread called them, or, where the session's device
/// works beside it, when they ran. With a null tracer it does nothing.
class KernelWatch {
 public:
  /// Lives for one call of the session.
  KernelWatch(::executorch::runtime::EventTracer* tracer, DeviceSession& session) noexcept;
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  void begin(const char* name) noexcept;
  void end() noexcept;

 private:
  ::executorch::runtime::EventTracer* tracer_;
  KernelClock* clock_ = nullptr;  ///< null: kernels run on the thread that calls them
  KernelWatch* outer_ = nullptr;
  ::executorch::runtime::EventTracerEntry entry_{};
  bool running_ = false;
};

}  // namespace aoti_plugins
