#pragma once

// Where the items of a tile go when they are sorted by one digit, stably. A block of kDigits
// threads has the tile in its registers: each warp a piece, in rounds of one item for each lane.

#include <cstdint>

#include "cuda/kernels/sort.h"
#include "cuda/kernels/warp.cuh"

namespace aoti_plugins::cuda {

/// Blocks of a multiprocessor that registers are left for: they hide each other's waiting.
inline constexpr uint32_t kDigitBlocks = 3;

inline constexpr uint32_t kDigitWarps = kDigits / kWarp;

/// The shared memory for it.
struct DigitCounts {
  uint32_t of_warps[kDigitWarps][kDigits];
  uint32_t starts[kDigits];
  uint32_t warp_sums[kDigitWarps];
};

/// Where this lane's item of a round is in the tile.
template <uint32_t kItems>
__device__ uint32_t item_index(uint32_t round) {
  return (warp_index() * kItems + round) * kWarp + lane_index();
}

template <typename Key>
__device__ uint32_t digit_of(Key key, uint32_t shift) {
  return static_cast<uint32_t>(key >> shift) % kDigits;
}

/// The lanes with the same digit.
inline __device__ uint32_t lanes_with(uint32_t digit) {
  uint32_t lanes = kAllLanes;
#pragma unroll
  for (uint32_t bit = 0; bit < kDigitBits; ++bit) {
    const bool is_set = (digit >> bit & 1) != 0;
    const uint32_t votes = __ballot_sync(kAllLanes, is_set);
    lanes &= is_set ? votes : ~votes;
  }
  return lanes;
}

/// Counts the digits of each warp's items; `ranks` are the items' among those of their warp and
/// digit. Ends at a barrier.
template <typename Key, uint32_t kItems>
__device__ void rank_in_warps(const Key (&keys)[kItems], uint32_t shift, DigitCounts& counts,
                              uint32_t (&ranks)[kItems]) {
  uint32_t* const own = counts.of_warps[warp_index()];
  for (uint32_t digit = lane_index(); digit < kDigits; digit += kWarp) {
    own[digit] = 0;
  }
  __syncwarp();
#pragma unroll
  for (uint32_t round = 0; round < kItems; ++round) {
    const uint32_t digit = digit_of(keys[round], shift);
    const uint32_t lanes = lanes_with(digit);
    const uint32_t before = __popc(lanes & lanes_below());
    const uint32_t count = own[digit];
    __syncwarp();
    if (before == 0) {
      own[digit] = count + __popc(lanes);
    }
    __syncwarp();
    ranks[round] = count + before;
  }
  __syncthreads();
}

/// How often this thread's digit is in the tile; the counts of its warps become those of the warps
/// before.
inline __device__ uint32_t total_of_digit(DigitCounts& counts) {
  uint32_t total = 0;
#pragma unroll
  for (uint32_t warp = 0; warp < kDigitWarps; ++warp) {
    const uint32_t count = counts.of_warps[warp][threadIdx.x];
    counts.of_warps[warp][threadIdx.x] = total;
    total += count;
  }
  return total;
}

/// Makes the ranks those among all items of the tile. Returns where this thread's digit starts, of
/// which there are `total`.
template <typename Key, uint32_t kItems>
__device__ uint32_t rank_in_tile(const Key (&keys)[kItems], uint32_t shift, uint32_t total,
                                 DigitCounts& counts, uint32_t (&ranks)[kItems]) {
  const uint32_t start = sum_before(total, counts.warp_sums);
  counts.starts[threadIdx.x] = start;
  __syncthreads();
#pragma unroll
  for (uint32_t round = 0; round < kItems; ++round) {
    const uint32_t digit = digit_of(keys[round], shift);
    ranks[round] += counts.starts[digit] + counts.of_warps[warp_index()][digit];
  }
  return start;
}

}  // namespace aoti_plugins::cuda
