#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <cstdint>

#include "slim/tensor.h"

namespace aoti_plugins {

/// Whether a tracer asks for intermediate outputs; null asks for nothing.
bool wants_kernel_outputs(::executorch::runtime::EventTracer* tracer) noexcept;

/// Gives a tracer what a kernel wrote, as an intermediate output of the delegate with this name:
/// its elements in host memory, row-major. Waits for the device where the tensor is on one.
///
/// Dtypes that readers of ExecuTorch's dumps do not know, such as bfloat16, are given as float32;
/// complex numbers and float8 not at all. The log says what could not be given; what the call
/// returns does not depend on it, nor does the reason of its failure.
///
/// @param ndim with `sizes`: what the tensor's elements are shown as; -1 for its own sizes.
void log_kernel_output(::executorch::runtime::EventTracer& tracer, const char* name,
                       const Tensor& tensor, int64_t ndim, const int64_t* sizes) noexcept;

}  // namespace aoti_plugins
