#pragma once

#include <cuda.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>

#include "cuda/libraries/cublaslt.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// One operand as cuBLASLt wants it: a column-major matrix, or its transpose.
struct GemmOperand {
  const void* data = nullptr;
  bool transposed = false;
  int64_t leading = 0;       ///< elements from one stored column to the next
  int64_t batch_stride = 0;  ///< elements from one matrix to the next
};

/// d [m, n] = alpha * (a [m, k] @ b [k, n]) + beta * c [m, n], all column-major, `batch` of them,
/// with what the epilogue adds. `c` may be `d`.
struct Gemm {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  cudaDataType input_type = CUDA_R_32F;   ///< of a
  cudaDataType second_type = CUDA_R_32F;  ///< of b
  cudaDataType output_type = CUDA_R_32F;
  lt::ComputeType compute = lt::kCompute32F;
  cudaDataType scale_type = CUDA_R_32F;
  GemmOperand a;
  GemmOperand b;
  GemmOperand c;
  GemmOperand d;
  double alpha = 1.0;
  double beta = 0.0;
  uint32_t epilogue = lt::kDefault;
  const void* bias = nullptr;  ///< m elements
  cudaDataType bias_type = CUDA_R_32F;
  /// Factors on the GPU for float8 operands, and for a float8 result; null for none.
  const void* a_scale = nullptr;
  const void* b_scale = nullptr;
  const void* d_scale = nullptr;
  lt::ScaleMode scale_mode = lt::kScaleScalar;  ///< of a and b
  bool fast_accumulation = false;
};

/// Whether cuBLASLt has a kernel for a problem on a GPU; what it answers is kept for this thread. A
/// failure's reason names the problem.
Status prepare_gemm(const Gemm& gemm, int32_t gpu) noexcept;

/// Whether there is memory for the work of a problem with a kernel; it stays with the current
/// stream.
Status reserve_gemm(const Gemm& gemm, int32_t gpu) noexcept;

/// Launches a problem on this thread's current stream. The GPU's context must be current.
Status run_gemm(const Gemm& gemm, int32_t gpu) noexcept;

}  // namespace aoti_plugins::cuda
