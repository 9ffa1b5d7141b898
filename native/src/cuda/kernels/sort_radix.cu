// Long lines: a radix sort, from the least significant digit on, stable in every pass. All digits
// are counted at once; then each pass moves the items of a tile to where their digits go in the
// line. A tile knows that when the tiles before it have told how many of each digit they have.

#include "cuda/kernels/digits.cuh"
#include "cuda/kernels/sort_keys.cuh"

using namespace aoti_plugins::cuda;

namespace {

template <typename T>
inline constexpr uint32_t kTileItems = (sizeof(T) == 8 ? kTile64 : kTile32) / kDigits;

/// Adds the digits of the lines to `totals` [lines, digits of a key, values of a digit].
template <typename T>
__device__ void count_digits(const SortTensors& tensors, uint32_t* totals, const Lines& lines) {
  constexpr uint32_t kBatch = 8;
  __shared__ uint32_t counts[sizeof(T)][kDigits];
  const int64_t pieces = (lines.length + kRadixCountPiece - 1) / kRadixCountPiece;
  for (int64_t at = blockIdx.x; at < lines.count * pieces; at += gridDim.x) {
    const int64_t line = at / pieces;
    const SortLine<T> from(tensors, lines, line);
    const int64_t begin = (at - line * pieces) * kRadixCountPiece;
    const int64_t rest = lines.length - begin;
    const int64_t count = rest < kRadixCountPiece ? rest : kRadixCountPiece;
    for (uint32_t d = 0; d < sizeof(T); ++d) {
      counts[d][threadIdx.x] = 0;
    }
    __syncthreads();
    for (int64_t base = threadIdx.x; base < count; base += kBatch * kDigits) {
      T bits[kBatch];
#pragma unroll
      for (uint32_t j = 0; j < kBatch; ++j) {
        bits[j] = base + j * kDigits < count ? from.load(begin + base + j * kDigits) : T{0};
      }
#pragma unroll
      for (uint32_t j = 0; j < kBatch; ++j) {
        if (base + j * kDigits < count) {
          const KeyOf<T> key = key_of(bits[j], tensors.order);
#pragma unroll
          for (uint32_t d = 0; d < sizeof(T); ++d) {
            atomicAdd(&counts[d][digit_of(key, d * kDigitBits)], 1u);
          }
        }
      }
    }
    __syncthreads();
    for (uint32_t d = 0; d < sizeof(T); ++d) {
      if (counts[d][threadIdx.x] != 0) {
        atomicAdd(&totals[(line * sizeof(T) + d) * kDigits + threadIdx.x], counts[d][threadIdx.x]);
      }
    }
  }
}

/// What a tile tells about one digit, in one word, so that it is read as it was written: the upper
/// half says what the lower half is. Values of earlier passes are smaller.
__device__ uint64_t own_state(int32_t pass, uint32_t count) {
  return uint64_t(2 * pass + 1) << 32 | count;
}

/// With all tiles before it, and all smaller digits of the line.
__device__ uint64_t full_state(int32_t pass, uint32_t count) {
  return uint64_t(2 * pass + 2) << 32 | count;
}

/// Sums what the tiles before `tile` tell about a digit. They are waited for: blocks take tiles in
/// order, and tell what they have before they wait.
__device__ uint32_t sum_of_tiles(const volatile uint64_t* states, int64_t tile, int32_t pass) {
  constexpr int64_t kWindow = 4;
  const uint64_t own = own_state(pass, 0) >> 32;
  uint32_t sum = 0;
  int64_t next = tile - 1;
  for (;;) {
    uint64_t seen[kWindow];
#pragma unroll
    for (int64_t j = 0; j < kWindow; ++j) {
      seen[j] = states[(next > j ? next - j : 0) * kDigits];
    }
#pragma unroll
    for (int64_t j = 0; j < kWindow; ++j) {
      if (seen[j] >> 32 < own) {
        break;
      }
      sum += static_cast<uint32_t>(seen[j]);
      if (seen[j] >> 32 > own) {
        return sum;
      }
      --next;
    }
  }
}

/// Where this thread's digit of a line starts, or where its first one of a tile goes.
__device__ uint32_t place_of_digit(const RadixPass& pass, uint32_t digits, int64_t line,
                                   int64_t tile, const volatile uint64_t* states,
                                   uint32_t* warp_sums) {
  if (tile > 0) {
    return sum_of_tiles(states, tile, pass.pass);
  }
  return sum_before(pass.totals[(line * digits + pass.pass) * kDigits + threadIdx.x], warp_sums);
}

/// The tile that comes next.
__device__ int64_t take_ticket(uint32_t* ticket, uint32_t* shared) {
  if (threadIdx.x == 0) {
    *shared = atomicAdd(ticket, 1u);
  }
  __syncthreads();
  return *shared;
}

/// The first pass reads elements, the last one writes them.
template <typename T, bool kFirst, bool kLast>
__device__ void move_tiles(const SortTensors& tensors, const RadixPass& pass, const Lines& lines) {
  using Key = KeyOf<T>;
  constexpr uint32_t kItems = kTileItems<T>;
  constexpr int64_t kTile = int64_t{kItems} * kDigits;
  __shared__ Key sorted_keys[kTile];
  __shared__ uint32_t sorted_places[kTile];
  __shared__ DigitCounts counts;
  __shared__ uint32_t offsets[kDigits];
  __shared__ uint32_t ticket;
  const uint32_t shift = pass.pass * kDigitBits;
  for (;;) {
    const int64_t taken = take_ticket(pass.ticket, &ticket);
    if (taken >= lines.count * pass.tiles) {
      return;
    }
    const int64_t line = taken / pass.tiles;
    const int64_t tile = taken - line * pass.tiles;
    const int64_t begin = tile * kTile;
    const uint32_t count =
        static_cast<uint32_t>(lines.length - begin < kTile ? lines.length - begin : kTile);
    const SortLine<T> at(tensors, lines, line);
    const int64_t line_begin = line * lines.length;
    Key keys[kItems];
    uint32_t places[kItems];
    uint32_t ranks[kItems];
#pragma unroll
    for (uint32_t round = 0; round < kItems; ++round) {
      const uint32_t i = item_index<kItems>(round);
      keys[round] = kLastKey<Key>;
      places[round] = 0;
      if (i >= count) {
        continue;
      }
      if constexpr (kFirst) {
        keys[round] = key_of(at.load(begin + i), tensors.order);
        places[round] = static_cast<uint32_t>(begin + i);
      } else {
        keys[round] = static_cast<const Key*>(pass.keys_in)[line_begin + begin + i];
        places[round] = pass.places_in[line_begin + begin + i];
      }
    }
    rank_in_warps(keys, shift, counts, ranks);
    const uint32_t total = total_of_digit(counts);
    volatile uint64_t* const states = pass.states + line * pass.tiles * kDigits + threadIdx.x;
    if (tile > 0) {
      states[tile * kDigits] = own_state(pass.pass, total);
    }
    const uint32_t start = rank_in_tile(keys, shift, total, counts, ranks);
#pragma unroll
    for (uint32_t round = 0; round < kItems; ++round) {
      sorted_keys[ranks[round]] = keys[round];
      sorted_places[ranks[round]] = places[round];
    }
    const uint32_t place = place_of_digit(pass, sizeof(T), line, tile, states, counts.warp_sums);
    states[tile * kDigits] = full_state(pass.pass, place + total);
    offsets[threadIdx.x] = place - start;
    __syncthreads();
#pragma unroll
    for (uint32_t round = 0; round < kItems; ++round) {
      const uint32_t i = round * kDigits + threadIdx.x;
      if (i >= count) {
        continue;
      }
      const Key key = sorted_keys[i];
      const uint32_t to = offsets[digit_of(key, shift)] + i;
      if constexpr (!kLast) {
        static_cast<Key*>(pass.keys_out)[line_begin + to] = key;
        pass.places_out[line_begin + to] = sorted_places[i];
      } else if (to < tensors.count) {
        at.store(to, sorted_places[i]);
      }
    }
    __syncthreads();
  }
}

}  // namespace

#define AOTIP_RADIX_COUNT(nbytes, type)                                                            \
  extern "C" __global__ void __launch_bounds__(kDigits, kDigitBlocks)                              \
      aotip_radix_count_##nbytes(const SortTensors tensors, uint32_t* totals, const Lines lines) { \
    count_digits<type>(tensors, totals, lines);                                                    \
  }

AOTIP_RADIX_COUNT(1, uint8_t)
AOTIP_RADIX_COUNT(2, uint16_t)
AOTIP_RADIX_COUNT(4, uint32_t)
AOTIP_RADIX_COUNT(8, uint64_t)

/// `aotip_radix_<which pass>_<itemsize>`.
#define AOTIP_RADIX_PASS(which, nbytes, type, first, last)                            \
  extern "C" __global__ void __launch_bounds__(kDigits, kDigitBlocks)                 \
      aotip_radix_##which##_##nbytes(const SortTensors tensors, const RadixPass pass, \
                                     const Lines lines) {                             \
    move_tiles<type, first, last>(tensors, pass, lines);                              \
  }

AOTIP_RADIX_PASS(only, 1, uint8_t, true, true)
AOTIP_RADIX_PASS(first, 2, uint16_t, true, false)
AOTIP_RADIX_PASS(last, 2, uint16_t, false, true)
AOTIP_RADIX_PASS(first, 4, uint32_t, true, false)
AOTIP_RADIX_PASS(next, 4, uint32_t, false, false)
AOTIP_RADIX_PASS(last, 4, uint32_t, false, true)
AOTIP_RADIX_PASS(first, 8, uint64_t, true, false)
AOTIP_RADIX_PASS(next, 8, uint64_t, false, false)
AOTIP_RADIX_PASS(last, 8, uint64_t, false, true)
