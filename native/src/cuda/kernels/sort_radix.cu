// Long lines: a radix sort, from the least significant digit on, stable in every pass. All digits
// are counted at once; then each pass moves the items of a tile to where their digits go in the
// line. A tile knows that when the tiles before it have told how many of each digit they have.

#include "cuda/kernels/digits.cuh"
#include "cuda/kernels/sort_keys.cuh"

using namespace aoti_plugins::cuda;

namespace {

template <typename Key>
inline constexpr uint32_t kTileItems = (sizeof(Key) == 8 ? kTile64 : kTile32) / kDigits;

/// Adds the digits of the lines to `totals` [lines, digits of a key, values of a digit].
template <typename Key>
__device__ void count_digits(const SortTensors& tensors, uint32_t* totals, const Lines& lines) {
  constexpr uint32_t kBatch = 8;
  __shared__ uint32_t counts[sizeof(Key)][kDigits];
  const uint32_t digits = nbytes_of<Key>(tensors.order);
  const int64_t pieces = (lines.length + kRadixCountPiece - 1) / kRadixCountPiece;
  for (int64_t at = blockIdx.x; at < lines.count * pieces; at += gridDim.x) {
    const int64_t line = at / pieces;
    const SortLine<Key> from(tensors, lines, line);
    const int64_t begin = (at - line * pieces) * kRadixCountPiece;
    const int64_t rest = lines.length - begin;
    const int64_t count = rest < kRadixCountPiece ? rest : kRadixCountPiece;
    for (uint32_t d = 0; d < digits; ++d) {
      counts[d][threadIdx.x] = 0;
    }
    __syncthreads();
    for (int64_t base = threadIdx.x; base < count; base += kBatch * kDigits) {
      const auto place = [&](uint32_t j) { return begin + base + j * kDigits; };
      Key keys[kBatch];
      from.load_keys(place, begin + count, tensors.order, keys);
#pragma unroll
      for (uint32_t j = 0; j < kBatch; ++j) {
#pragma unroll
        for (uint32_t d = 0; d < sizeof(Key); ++d) {
          if (place(j) < begin + count && d < digits) {
            atomicAdd(&counts[d][digit_of(keys[j], d * kDigitBits)], 1u);
          }
        }
      }
    }
    __syncthreads();
    for (uint32_t d = 0; d < digits; ++d) {
      if (counts[d][threadIdx.x] != 0) {
        atomicAdd(&totals[(line * digits + d) * kDigits + threadIdx.x], counts[d][threadIdx.x]);
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

/// The rank in a line of what is behind its end.
constexpr uint32_t kNowhere = ~uint32_t{0};

/// The first pass reads elements, the last one writes them.
template <typename Key>
__device__ void move_tiles(const SortTensors& tensors, const RadixPass& pass, const Lines& lines) {
  constexpr uint32_t kItems = kTileItems<Key>;
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
    const int64_t line_begin = line * lines.length;
    Key keys[kItems];
    uint32_t places[kItems];
    uint32_t ranks[kItems];
    if (pass.pass == 0) {
      const auto place = [&](uint32_t round) { return begin + item_index<kItems>(round); };
      const SortLine<Key> from(tensors, lines, line);
      from.load_keys(place, begin + count, tensors.order, keys);
#pragma unroll
      for (uint32_t round = 0; round < kItems; ++round) {
        places[round] = static_cast<uint32_t>(place(round));
      }
    } else {
#pragma unroll
      for (uint32_t round = 0; round < kItems; ++round) {
        const uint32_t i = item_index<kItems>(round);
        const int64_t at = line_begin + begin + i;
        keys[round] = i < count ? static_cast<const Key*>(pass.keys_in)[at] : kLastKey<Key>;
        places[round] = i < count ? pass.places_in[at] : 0;
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
    const uint32_t place =
        place_of_digit(pass, tensors.order.nbytes, line, tile, states, counts.warp_sums);
    states[tile * kDigits] = full_state(pass.pass, place + total);
    offsets[threadIdx.x] = place - start;
    __syncthreads();
#pragma unroll
    for (uint32_t round = 0; round < kItems; ++round) {
      const uint32_t i = round * kDigits + threadIdx.x;
      keys[round] = sorted_keys[i];
      places[round] = sorted_places[i];
      ranks[round] = i < count ? offsets[digit_of(keys[round], shift)] + i : kNowhere;
    }
    if (pass.pass + 1 == tensors.order.nbytes) {
      const SortLine<Key> to(tensors, lines, line);
      to.store([&](uint32_t round) { return ranks[round]; }, tensors.count, places);
    } else {
#pragma unroll
      for (uint32_t round = 0; round < kItems; ++round) {
        if (ranks[round] != kNowhere) {
          static_cast<Key*>(pass.keys_out)[line_begin + ranks[round]] = keys[round];
          pass.places_out[line_begin + ranks[round]] = places[round];
        }
      }
    }
    __syncthreads();
  }
}

}  // namespace

/// `aotip_radix_count_<bytes of a key>` and `aotip_radix_pass_<bytes of a key>`.
#define AOTIP_RADIX(nbytes, type)                                                                  \
  extern "C" __global__ void __launch_bounds__(kDigits, kDigitBlocks)                              \
      aotip_radix_count_##nbytes(const SortTensors tensors, uint32_t* totals, const Lines lines) { \
    count_digits<type>(tensors, totals, lines);                                                    \
  }                                                                                                \
  extern "C" __global__ void __launch_bounds__(kDigits, kDigitBlocks) aotip_radix_pass_##nbytes(   \
      const SortTensors tensors, const RadixPass pass, const Lines lines) {                        \
    move_tiles<type>(tensors, pass, lines);                                                        \
  }

AOTIP_RADIX(4, uint32_t)
AOTIP_RADIX(8, uint64_t)
