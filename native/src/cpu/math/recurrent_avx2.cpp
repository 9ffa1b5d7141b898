// Recurrent layers for the avx2 instruction set; CMake compiles this file with the flags that go
// with it.

#define AOTIP_ISA recurrent_avx2
#include "cpu/math/recurrent_kernels.inc"

namespace aoti_plugins::cpu {

RecurrentKernels recurrent_kernels_avx2() noexcept {
  return {recurrent_avx2::cell_kernels<float>(), recurrent_avx2::cell_kernels<double>()};
}

}  // namespace aoti_plugins::cpu
