// GEMM for the baseline instruction set; CMake compiles this file with the flags that go with it.

#define AOTIP_ISA baseline
#define AOTIP_VECTOR_NBYTES 16
#include "cpu/math/gemm_kernels.inc"

namespace aoti_plugins::cpu {

GemmKernels gemm_kernels_baseline() noexcept {
  return {"baseline", &baseline::gemm<float>, &baseline::gemm<double>};
}

}  // namespace aoti_plugins::cpu
