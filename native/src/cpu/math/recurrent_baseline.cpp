// Recurrent layers for the baseline instruction set; CMake compiles this file with the flags that
// go with it.

#define AOTIP_ISA recurrent_baseline
#include "cpu/math/recurrent_kernels.inc"

namespace aoti_plugins::cpu {

RecurrentKernels recurrent_kernels_baseline() noexcept {
  return {recurrent_baseline::cell_kernels<float>(), recurrent_baseline::cell_kernels<double>()};
}

}  // namespace aoti_plugins::cpu
