#pragma once

// Warps and sums over blocks. All blocks are whole warps.

#include <cstdint>

namespace aoti_plugins::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t{0};

inline __device__ uint32_t lane_index() {
  return threadIdx.x % kWarp;
}

inline __device__ uint32_t warp_index() {
  return threadIdx.x / kWarp;
}

/// The lanes below this one.
inline __device__ uint32_t lanes_below() {
  return (uint32_t{1} << lane_index()) - 1;
}

/// The sum of the values of the lanes up to this one.
template <typename T>
__device__ T sum_of_lanes(T value) {
  for (uint32_t reach = 1; reach < kWarp; reach *= 2) {
    const T below = __shfl_up_sync(kAllLanes, value, reach);
    value += lane_index() >= reach ? below : 0;
  }
  return value;
}

/// The sum of the values of all threads before this one. `warp_sums` is shared memory, a word for
/// each warp of the block.
inline __device__ uint32_t sum_before(uint32_t value, uint32_t* warp_sums) {
  const uint32_t sum = sum_of_lanes(value);
  if (lane_index() == kWarp - 1) {
    warp_sums[warp_index()] = sum;
  }
  __syncthreads();
  const uint32_t of_lane = lane_index() < warp_index() ? warp_sums[lane_index()] : 0;
  const uint32_t before = __reduce_add_sync(kAllLanes, of_lane);
  __syncthreads();
  return before + sum - value;
}

}  // namespace aoti_plugins::cuda
