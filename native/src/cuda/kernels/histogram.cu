// How many elements lie in each of a number of equal intervals. Each block counts in its own memory
// and adds what it has to the totals.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/kernels/histogram.h"

using namespace aoti_plugins::cuda;

namespace {

__device__ float widened(float x) {
  return x;
}
__device__ double widened(double x) {
  return x;
}
__device__ float widened(__half x) {
  return __half2float(x);
}
__device__ float widened(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

/// Both ends belong to an interval; NaN is in none.
template <typename T, typename Wide>
__device__ void count_elements(uint32_t* totals, const T* src, int64_t numel, int32_t bins,
                               Wide low, Wide high) {
  __shared__ uint32_t counts[kHistogramBins];
  for (int32_t bin = static_cast<int32_t>(threadIdx.x); bin < bins;
       bin += static_cast<int32_t>(blockDim.x)) {
    counts[bin] = 0;
  }
  __syncthreads();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < numel; i += step) {
    const Wide x = widened(src[i]);
    if (x >= low && x <= high) {
      const int32_t bin = static_cast<int32_t>((x - low) / (high - low) * static_cast<Wide>(bins));
      atomicAdd(&counts[bin < bins ? bin : bins - 1], 1u);
    }
  }
  __syncthreads();
  for (int32_t bin = static_cast<int32_t>(threadIdx.x); bin < bins;
       bin += static_cast<int32_t>(blockDim.x)) {
    if (counts[bin] != 0) {
      atomicAdd(&totals[bin], counts[bin]);
    }
  }
}

}  // namespace

/// `aotip_histogram_<dtype>`: `totals` start at zero; 1 to kHistogramBins of them; low < high.
#define AOTIP_HISTOGRAM(name, type, wide)                                                    \
  extern "C" __global__ void aotip_histogram_##name(uint32_t* totals, const type* src,       \
                                                    int64_t numel, int32_t bins, double low, \
                                                    double high) {                           \
    count_elements(totals, src, numel, bins, static_cast<wide>(low), static_cast<wide>(high)); \
  }

AOTIP_HISTOGRAM(float32, float, float)
AOTIP_HISTOGRAM(float64, double, double)
AOTIP_HISTOGRAM(float16, __half, float)
AOTIP_HISTOGRAM(bfloat16, __nv_bfloat16, float)
