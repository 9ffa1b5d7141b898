// GEMM for the avx2 instruction set; CMake compiles this file with the flags that go with it.

#define AOTIP_ISA avx2
#define AOTIP_VECTOR_NBYTES 32
#include "cpu/math/gemm_kernels.inc"

namespace aoti_plugins::cpu {

GemmKernels gemm_kernels_avx2() noexcept {
  return {"avx2", &avx2::gemm<float>, &avx2::gemm<double>};
}

}  // namespace aoti_plugins::cpu
