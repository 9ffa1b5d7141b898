// Products with narrow weights for the baseline instruction set; CMake compiles this file with the
// flags that go with it.

#define AOTIP_ISA narrow_baseline
#include "cpu/math/narrow_weights.inc"

namespace aoti_plugins::cpu {

NarrowKernels narrow_kernels_baseline() noexcept {
  return {narrow_baseline::multiply, narrow_baseline::widen};
}

}  // namespace aoti_plugins::cpu
