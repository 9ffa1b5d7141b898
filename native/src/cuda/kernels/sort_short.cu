// Lines of up to kSortWarpLength elements: a bitonic network in the registers of a warp, which
// sorts several lines at once where they are shorter.

#include "cuda/kernels/sort_keys.cuh"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

namespace {

__device__ Pair<uint32_t> pair_across(const Pair<uint32_t>& pair, uint32_t reach) {
  return {__shfl_xor_sync(kAllLanes, pair.bits, reach)};
}

__device__ Pair<uint64_t> pair_across(const Pair<uint64_t>& pair, uint32_t reach) {
  return {__shfl_xor_sync(kAllLanes, pair.key, reach),
          __shfl_xor_sync(kAllLanes, pair.place, reach)};
}

/// Sorts runs of `padded` pairs, of which each lane has kItems.
template <typename Key, uint32_t kItems>
__device__ void sort_in_warp(Pair<Key> (&pairs)[kItems], uint32_t padded) {
  const uint32_t begin = lane_index() * kItems;
  for (uint32_t run = 2; run <= padded; run *= 2) {
    for (uint32_t reach = run / 2; reach >= kItems; reach /= 2) {
      const bool up = run == padded || (begin & run) == 0;
      const bool takes_first = ((begin & reach) == 0) == up;
#pragma unroll
      for (uint32_t j = 0; j < kItems; ++j) {
        const Pair<Key> other = pair_across(pairs[j], reach / kItems);
        pairs[j] = is_before(other, pairs[j]) == takes_first ? other : pairs[j];
      }
    }
#pragma unroll
    for (uint32_t reach = kItems / 2; reach > 0; reach /= 2) {
      if (reach >= run) {
        continue;
      }
#pragma unroll
      for (uint32_t j = 0; j < kItems; ++j) {
        if ((j & reach) == 0) {
          exchange(pairs[j], pairs[j + reach], run == padded || ((begin + j) & run) == 0);
        }
      }
    }
  }
}

template <typename Key, uint32_t kItems>
__device__ void sort_short(const SortTensors& tensors, uint32_t padded, const Lines& lines) {
  const uint32_t lanes = padded / kItems;
  const uint32_t first = lane_index() % lanes * kItems;
  const int64_t warps = int64_t{gridDim.x} * (blockDim.x / kWarp);
  const int64_t lines_of_warp = kWarp / lanes;
  const int64_t warp = int64_t{blockIdx.x} * (blockDim.x / kWarp) + warp_index();
  for (int64_t base = warp * lines_of_warp; base < lines.count; base += warps * lines_of_warp) {
    const int64_t line = base + lane_index() / lanes;
    const int64_t length = line < lines.count ? lines.length : 0;
    const SortLine<Key> at(tensors, lines, line < lines.count ? line : base);
    const auto place = [&](uint32_t j) { return first + j; };
    Key keys[kItems];
    at.load_keys(place, length, tensors.order, keys);
    Pair<Key> pairs[kItems];
#pragma unroll
    for (uint32_t j = 0; j < kItems; ++j) {
      set_pair(keys[j], place(j), &pairs[j]);
    }
    sort_in_warp(pairs, padded);
    uint32_t places[kItems];
#pragma unroll
    for (uint32_t j = 0; j < kItems; ++j) {
      places[j] = place_of(pairs[j]);
    }
    at.store(place, length > 0 ? tensors.count : 0, places);
  }
}

}  // namespace

/// `aotip_sort_short_<bytes of a key>_<items of a lane>`: `padded`, a power of two, is the least
/// that a line fits in, at least the items of a lane and at most those of a warp.
#define AOTIP_SORT_SHORT(nbytes, type, items)                                \
  extern "C" __global__ void aotip_sort_short_##nbytes##_##items(            \
      const SortTensors tensors, const uint32_t padded, const Lines lines) { \
    sort_short<type, items>(tensors, padded, lines);                         \
  }

AOTIP_SORT_SHORT(4, uint32_t, 2)
AOTIP_SORT_SHORT(4, uint32_t, 4)
AOTIP_SORT_SHORT(8, uint64_t, 2)
AOTIP_SORT_SHORT(8, uint64_t, 4)
