// Products with narrow weights for the avx512 instruction set; CMake compiles this file with the
// flags that go with it.

#define AOTIP_ISA narrow_avx512
#include "cpu/math/narrow_weights.inc"

namespace aoti_plugins::cpu {

NarrowKernels narrow_kernels_avx512() noexcept {
  return {narrow_avx512::multiply, narrow_avx512::widen};
}

}  // namespace aoti_plugins::cpu
