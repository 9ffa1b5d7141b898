// Lines that fit into a block's own memory: a radix sort there, from the least significant digit
// on. Digits that are the same in the whole line are passed over.

#include "cuda/kernels/digits.cuh"
#include "cuda/kernels/sort_keys.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// The bits in which the first `length` keys of a tile differ.
template <typename Key, uint32_t kItems>
__device__ Key differing_bits(const Key (&keys)[kItems], int64_t length, Key* first, Key* shared) {
  if (threadIdx.x == 0) {
    *first = keys[0];
    *shared = 0;
  }
  __syncthreads();
  Key bits = 0;
#pragma unroll
  for (uint32_t round = 0; round < kItems; ++round) {
    bits |= item_index<kItems>(round) < length ? keys[round] ^ *first : 0;
  }
  for (uint32_t reach = kWarp / 2; reach > 0; reach /= 2) {
    bits |= __shfl_xor_sync(kAllLanes, bits, reach);
  }
  if (lane_index() == 0) {
    using Word = std::conditional_t<sizeof(Key) == 8, unsigned long long, unsigned int>;
    atomicOr(reinterpret_cast<Word*>(shared), static_cast<Word>(bits));
  }
  __syncthreads();
  return *shared;
}

template <typename Key, uint32_t kItems>
__device__ void sort_block(const SortTensors& tensors, const Lines& lines) {
  __shared__ Key sorted_keys[kItems * kDigits];
  __shared__ uint16_t sorted_places[kItems * kDigits];
  __shared__ DigitCounts counts;
  __shared__ Key first;
  __shared__ Key differing;
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const SortLine<Key> at(tensors, lines, line);
    Key keys[kItems];
    uint32_t places[kItems];
    uint32_t ranks[kItems];
#pragma unroll
    for (uint32_t round = 0; round < kItems; ++round) {
      places[round] = item_index<kItems>(round);
    }
    at.load_keys(item_index<kItems>, lines.length, tensors.order, keys);
    const Key bits = differing_bits(keys, lines.length, &first, &differing);
    for (uint32_t shift = 0; shift < 8 * at.nbytes; shift += kDigitBits) {
      if (digit_of(bits, shift) == 0) {
        continue;
      }
      rank_in_warps(keys, shift, counts, ranks);
      const uint32_t total = total_of_digit(counts);
      rank_in_tile(keys, shift, total, counts, ranks);
#pragma unroll
      for (uint32_t round = 0; round < kItems; ++round) {
        sorted_keys[ranks[round]] = keys[round];
        sorted_places[ranks[round]] = static_cast<uint16_t>(places[round]);
      }
      __syncthreads();
#pragma unroll
      for (uint32_t round = 0; round < kItems; ++round) {
        keys[round] = sorted_keys[item_index<kItems>(round)];
        places[round] = sorted_places[item_index<kItems>(round)];
      }
    }
    at.store(item_index<kItems>, tensors.count, places);
    __syncthreads();
  }
}

}  // namespace

/// `aotip_sort_block_<bytes of a key>_<items of a thread>`: a block of kDigits threads for each
/// line.
#define AOTIP_SORT_BLOCK(nbytes, type, items)                                             \
  extern "C" __global__ void __launch_bounds__(kDigits, kDigitBlocks)                     \
      aotip_sort_block_##nbytes##_##items(const SortTensors tensors, const Lines lines) { \
    sort_block<type, items>(tensors, lines);                                              \
  }

AOTIP_SORT_BLOCK(4, uint32_t, 1)
AOTIP_SORT_BLOCK(4, uint32_t, 4)
AOTIP_SORT_BLOCK(4, uint32_t, 16)
AOTIP_SORT_BLOCK(8, uint64_t, 1)
AOTIP_SORT_BLOCK(8, uint64_t, 4)
AOTIP_SORT_BLOCK(8, uint64_t, 8)
