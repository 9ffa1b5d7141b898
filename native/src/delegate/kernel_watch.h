#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include "delegate/delegate_device.h"
#include "delegate/kernel_clock.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// While one lives, the kernels that this thread calls are told to a tracer, each as an event of
/// the delegate with the kernel's name: when the thread called them, or, where the session's device
/// works beside it, when they ran. With a null tracer it does nothing.
///
/// A tracer that asks for intermediate outputs is told what kernels wrote instead: their times
/// would be those of copies, and ExecuTorch's Inspector takes one event for each op.
class KernelWatch {
 public:
  /// Lives for one call of the session.
  KernelWatch(::executorch::runtime::EventTracer* tracer, DeviceSession& session) noexcept;
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  void begin(const char* name) noexcept;
  void end() noexcept;

  /// What a kernel wrote (kernel_output.h).
  void output(const char* name, const Tensor& tensor, int64_t ndim, const int64_t* sizes) noexcept;

 private:
  ::executorch::runtime::EventTracer* tracer_;
  KernelClock* clock_ = nullptr;  ///< null: kernels run on the thread that calls them
  KernelWatch* outer_ = nullptr;
  ::executorch::runtime::EventTracerEntry entry_{};
  bool running_ = false;
  bool wants_outputs_ = false;
};

}  // namespace aoti_plugins
