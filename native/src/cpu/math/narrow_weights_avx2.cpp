// Products with narrow weights for the avx2 instruction set; CMake compiles this file with the
// flags that go with it.

#define AOTIP_ISA narrow_avx2
#include "cpu/math/narrow_weights.inc"

namespace aoti_plugins::cpu {

NarrowKernels narrow_kernels_avx2() noexcept {
  return {narrow_avx2::multiply, narrow_avx2::widen};
}

}  // namespace aoti_plugins::cpu
