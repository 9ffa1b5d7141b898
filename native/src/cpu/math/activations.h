#pragma once

#include <cstdint>

namespace aoti_plugins::cpu {

/// Replaces `count` numbers by a function of them.
using Activation = void (*)(float* data, int64_t count);

/// The kernels of one instruction set.
struct ActivationKernels {
  Activation hardsigmoid;
  Activation hardswish;
  Activation sigmoid;
  Activation silu;
};

ActivationKernels activation_kernels_baseline() noexcept;
#if defined(__x86_64__)
ActivationKernels activation_kernels_avx2() noexcept;
ActivationKernels activation_kernels_avx512() noexcept;
#endif

/// An activation by the name of PyTorch's function, for this machine; null where it is none of
/// these.
Activation activation_named(const char* name) noexcept;

}  // namespace aoti_plugins::cpu
