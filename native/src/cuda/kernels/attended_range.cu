// What attention of one token wants to know of a mask, found once for all layers.

#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/token_attention.h"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

/// What is known of a mask [capacity]: an AttendedRange. One block. It waits for what is in front
/// of it before the next kernel may begin: who has such a range may read, before its own wait, what
/// kernels in front of this one wrote.
extern "C" __global__ void __launch_bounds__(kRangeThreads)
    aotip_attended_range(const bool* mask, int32_t capacity, int32_t* range) {
  __shared__ int of_warps[kRangeThreads / 32][3];
  wait_for_inputs();
  let_next_begin();
  int begin = capacity;
  int end = 0;
  int count = 0;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < capacity; i += kRangeThreads) {
    if (mask[i]) {
      begin = min(begin, i);
      end = i + 1;
      ++count;
    }
  }
#pragma unroll
  for (int reach = 16; reach > 0; reach /= 2) {
    begin = min(begin, __shfl_xor_sync(kAllLanes, begin, reach));
    end = max(end, __shfl_xor_sync(kAllLanes, end, reach));
    count += __shfl_xor_sync(kAllLanes, count, reach);
  }
  if (threadIdx.x % 32 == 0) {
    int* const found = of_warps[threadIdx.x / 32];
    found[0] = begin;
    found[1] = end;
    found[2] = count;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kRangeThreads / 32; ++warp) {
      begin = min(begin, of_warps[warp][0]);
      end = max(end, of_warps[warp][1]);
      count += of_warps[warp][2];
    }
    range[0] = min(begin, end);
    range[1] = end;
    range[2] = count == end - min(begin, end) ? 1 : 0;
    range[3] = 0;
  }
}
