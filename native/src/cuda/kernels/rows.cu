// What stands in front of products and behind them, for several rows.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/kernels/gate.cuh"
#include "cuda/kernels/one_row.h"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// A block for each row.
template <typename T>
__device__ void norm_of_rows(const NormOfRows& rows, float* squares) {
  const T* x = static_cast<const T*>(rows.x) + blockIdx.x * rows.k;
  T* out = static_cast<T*>(rows.out) + blockIdx.x * rows.k;
  float square = 0.0f;
  for (int64_t i = threadIdx.x; i < rows.k; i += blockDim.x) {
    const float one = static_cast<float>(x[i]);
    square += one * one;
  }
  for (int reach = 16; reach > 0; reach /= 2) {
    square += __shfl_xor_sync(kAllLanes, square, reach);
  }
  if (lane_index() == 0) {
    squares[warp_index()] = square;
  }
  __syncthreads();
  float all = 0.0f;
  for (uint32_t warp = 0; warp < blockDim.x / kWarp; ++warp) {
    all += squares[warp];
  }
  const float inverse = rsqrtf(all / static_cast<float>(rows.k) + rows.epsilon);
  for (int64_t i = threadIdx.x; i < rows.k; i += blockDim.x) {
    const float factor = static_cast<float>(static_cast<const T*>(rows.norm)[i]);
    out[i] = static_cast<T>(static_cast<float>(x[i]) * inverse * factor);
  }
}

template <typename T>
__device__ void end_of_rows(const EndOfRows& rows) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows.numel; i += step) {
    const T* product = static_cast<const T*>(rows.product);
    float value;
    if (rows.gate == kNoGate) {
      value = static_cast<float>(product[i]);
    } else {
      const int64_t at = i / rows.n * rows.n + i;
      value = activated(static_cast<float>(product[at]), rows.gate) *
              static_cast<float>(product[at + rows.n]);
    }
    if (rows.residual != nullptr) {
      value += static_cast<float>(static_cast<const T*>(rows.residual)[i]);
    }
    static_cast<T*>(rows.out)[i] = static_cast<T>(value);
  }
}

}  // namespace

#define AOTIP_ROWS(KIND, TYPE)                                                   \
  extern "C" __global__ void aotip_norm_of_rows_##KIND(const NormOfRows rows) {  \
    __shared__ float squares[kWarp];                                             \
    norm_of_rows<TYPE>(rows, squares);                                           \
  }                                                                              \
  extern "C" __global__ void aotip_end_of_rows_##KIND(const EndOfRows rows) {    \
    end_of_rows<TYPE>(rows);                                                     \
  }

AOTIP_ROWS(bf16, __nv_bfloat16)
AOTIP_ROWS(f16, __half)
