// GEMM for the avx512 instruction set; CMake compiles this file with the flags that go with it.

#define AOTIP_ISA avx512
#define AOTIP_VECTOR_NBYTES 64
#include "cpu/math/gemm_kernels.inc"

namespace aoti_plugins::cpu {

GemmKernels gemm_kernels_avx512() noexcept {
  // Few models have products of doubles, and a wheel no room for one more set of kernels.
  return {"avx512", &avx512::gemm<float>, gemm_kernels_avx2().f64};
}

}  // namespace aoti_plugins::cpu
