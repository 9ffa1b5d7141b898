#pragma once

namespace aoti_plugins::cpu {

#if defined(__x86_64__)
/// What the best instruction set of this machine has.
template <typename Kernels>
Kernels best_kernels(Kernels (*avx512)(), Kernels (*avx2)(), Kernels (*baseline)()) noexcept {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    return avx512();
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2() : baseline();
}
#define AOTIP_BEST_KERNELS(name) best_kernels(name##_avx512, name##_avx2, name##_baseline)
#else
#define AOTIP_BEST_KERNELS(name) name##_baseline()
#endif

}  // namespace aoti_plugins::cpu
