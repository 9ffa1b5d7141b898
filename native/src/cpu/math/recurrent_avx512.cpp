// Recurrent layers for the avx512 instruction set; CMake compiles this file with the flags that go
// with it.

#define AOTIP_ISA recurrent_avx512
#include "cpu/math/recurrent_kernels.inc"

namespace aoti_plugins::cpu {

RecurrentKernels recurrent_kernels_avx512() noexcept {
  return {recurrent_avx512::cell_kernels<float>(), recurrent_avx512::cell_kernels<double>()};
}

}  // namespace aoti_plugins::cpu
