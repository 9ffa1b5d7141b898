#pragma once

#include <executorch/runtime/core/event_tracer.h>

namespace aoti_plugins {

/// While one lives, the kernels that this thread calls are told to a tracer, each as an event of
/// the delegate with the kernel's name. With a null tracer it does nothing.
class KernelWatch {
 public:
  explicit KernelWatch(::executorch::runtime::EventTracer* tracer) noexcept;
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  void begin(const char* name) noexcept;
  void end() noexcept;

 private:
  ::executorch::runtime::EventTracer* tracer_;
  KernelWatch* outer_ = nullptr;
  ::executorch::runtime::EventTracerEntry entry_{};
  bool running_ = false;
};

}  // namespace aoti_plugins
