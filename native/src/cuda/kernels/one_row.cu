// Products of one row with weights of 4 and 8 bits, bounded by the reading of the weights, and
// what stands in front of them and behind them in language models: a root-mean-square norm of the
// row, a gate, a residual.
//
// The weight is the first factor of the tensor cores' products, 16 of its rows at a time; the second
// has the row in each of its columns. Of 4 bits, a lane turns two codes into two 16-bit floats with
// a shift and a logical operation: the code becomes the low bits of a float whose high bits are those
// of a power of two. What that adds to each weight is taken out again for a whole group, with the
// sum of the row there. A code of 8 bits is two digits of 4. The warps of a block have every n-th
// place along k of the same rows of the weight and add up what they found; then the block goes on
// with other rows, whose bytes are on their way by then.
//
// Kernels like these follow each other at once, so what counts is the time from the last one's end to
// this one's: weights are fetched before, and the way from the row to the result is short.

#include "cuda/kernels/gate.cuh"
#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/one_row.h"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// What a lane has of one tile, and how it becomes floats.
template <int BITS>
struct Digits;

template <>
struct Digits<4> {
  static constexpr int kDepth = kWeightTileDepth4;
  static constexpr int kDigits = 1;
  static constexpr float kMiddle = 8.0f;

  /// Two weights of a row for each half of a product's depth; `step` is a product of 16.
  template <typename T>
  __device__ static void pairs(const uint4& tile, int step, int, uint32_t& low,
                               uint32_t& high) {
    const uint32_t word = word_of(tile, step / 2) >> (step % 2 * 8);
    low = masked_xor<0x000f000f>(word, HalfPair<T>::kMagic);
    high = masked_xor<0x000f000f>(word >> 4, HalfPair<T>::kMagic);
  }
};

/// A code and 128 are 16 times one digit and another. Two bytes of a word that are not neighbours
/// make a pair: the row is ordered to fit.
template <>
struct Digits<8> {
  static constexpr int kDepth = kWeightTileDepth8;
  static constexpr int kDigits = 2;
  static constexpr float kMiddle = 0.0f;

  template <typename T>
  __device__ static void pairs(const uint4& tile, int step, int digit, uint32_t& low,
                               uint32_t& high) {
    const uint32_t word = word_of(tile, step) >> (digit * 4);
    const uint32_t magic = HalfPair<T>::kMagic ^ (digit == 0 ? 0 : 0x00080008);
    low = masked_xor<0x000f000f>(word, magic);
    high = masked_xor<0x000f000f>(word >> 8, magic);
  }
};

/// The bits of a scale. What makes a float of them would wait for them.
__device__ uint32_t scale_bits(const void* from, uint32_t i, uint32_t is_float) {
  const char* at = static_cast<const char*>(from) + (i << (1 + is_float));
  return is_float ? *reinterpret_cast<const uint32_t*>(at) : *reinterpret_cast<const uint16_t*>(at);
}

template <typename T>
__device__ float scale_of(uint32_t bits, uint32_t is_float) {
  return is_float ? __uint_as_float(bits) : HalfPair<T>::floats(bits).x;
}

/// What a warp holds of one place along k: tiles of all its rows, and the bits of scales and zeros.
template <int TILES>
struct Place {
  uint4 codes[TILES];
  uint32_t scale[TILES];
  uint32_t zero[TILES];
};

/// A block's share: TILES * 8 rows of the weight at a time. Groups end every PARTS * 32 weights, or
/// there where that does no harm because the next has the same scale. With a gate, every other tile
/// is of the second half of the weight. Bytes of PLACES places along k are on their way. PLAIN: no
/// zeros, and scales of the kind of x.
template <int BITS, typename T, int TILES, int WARPS, int PLACES, int PARTS, bool PLAIN>
struct OneRow {
  using Code = Digits<BITS>;
  static constexpr int kDepth = Code::kDepth;
  static constexpr int kParts = kDepth / 32;
  static constexpr int kRows = TILES * 8;
  static constexpr int kThreads = WARPS * 32;
  static constexpr int kGroup = PARTS * 32;
  static constexpr int kLanesOfGroup = kGroup / 8;
  static constexpr int kCopies = WARPS == 16 ? 2 : 4;
  /// Whether a lane has the scale of its own row, one for a tile.
  static constexpr bool kOwnScale = PARTS == kParts;
  static constexpr int kAhead = PLACES;
  /// Sums that do not wait for each other: of digits, or of every other product.
  static constexpr int kChains = BITS == 8 || TILES == 2 ? 2 : 1;
  /// What a weight of 4 or 8 bits is too large by.
  static constexpr float kOffset =
      BITS == 4 ? HalfPair<T>::kOffset + 8.0f : HalfPair<T>::kOffset * 17.0f + 128.0f;

  struct Shared {
    float parts[2][WARPS][kRows];
    float squares[WARPS];
  };

  __device__ OneRow(const OneRowProduct& product, Shared& block, float* memory)
      : p(product),
        shared(block),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        places((p.k + kDepth - 1) / kDepth),
        tiles(p.n / 8),
        next_first(blockIdx.x * TILES),
        next_place(warp),
        sums(memory),
        copy(reinterpret_cast<T*>(memory + (places * (kDepth / kGroup) + 3) / 4 * 4)) {}

  /// The tile of the weight that is `i`-th in the order of rows that are computed together.
  __device__ int tile_of(int i) const {
    const int tile = min(i, tiles - 1);
    return p.gate == kNoGate ? tile : tile / 2 + tile % 2 * (tiles / 2);
  }

  /// Sets out to fetch what follows `next_first`.
  __device__ void aim() {
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      const int tile = tile_of(next_first + t);
      weight[t] = static_cast<const uint4*>(p.weight) +
                  (static_cast<int64_t>(tile) * places + warp) * 32 + lane;
      scale[t] = tile * p.scale_tile_step + (kOwnScale ? lane / 4 : lane % 8) * p.scale_row_step;
    }
  }

  /// The tiles at `next_place` and `AHEAD` strides of the warps, if there are any.
  template <int AHEAD>
  __device__ void fetch(Place<TILES>& held) {
    const int place = next_place + AHEAD * WARPS;
    if (next_first < tiles && place < places) {
      fetch_tiles(held, place);
    }
    if constexpr (AHEAD == kAhead - 1) {
      next_place += kAhead * WARPS;
      if (next_place >= places) {
        next_first += gridDim.x * TILES;
        next_place = warp;
        if (next_first < tiles) {
          aim();
        }
      }
    }
  }

  __device__ void fetch_tiles(Place<TILES>& held, int place) {
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      held.codes[t] = load_once(weight[t]);
      weight[t] += WARPS * 32;
    }
    const int part = kOwnScale ? 0 : lane / 8 % kParts;
    const int begin = min(place * kDepth + part * 32, p.k - 1);
    const int group = (begin >> p.group_shift) * p.scale_group_step;
    const uint32_t is_float = PLAIN ? 0 : p.has_float_scale;
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      held.scale[t] = scale_bits(p.scale, scale[t] + group, is_float);
      if (!PLAIN && p.zero_kind != kNoZero) {
        held.zero[t] = scale_bits(p.zero, scale[t] + group, is_float);
      }
    }
  }

  /// What the norm multiplies a thread's elements of the row with, from `chunk` on; nothing waits.
  __device__ void fetch_norm(uint4 (&factors)[kCopies], int chunk) const {
#pragma unroll
    for (int j = 0; j < kCopies; ++j) {
      if (chunk + j * kThreads < p.k / 8) {
        factors[j] = static_cast<const uint4*>(p.norm)[chunk + j * kThreads];
      }
    }
  }

  /// The row in shared memory, zeros behind it, times what a norm multiplies it with; and the sums of
  /// its groups. Returns the sum of the squares of a thread's part.
  __device__ float copy_row(uint4 (&factors)[kCopies]) {
    float square = 0.0f;
    const int chunks = places * (kDepth / 8);
#pragma unroll 1
    for (int chunk = threadIdx.x; chunk - lane < chunks; chunk += kCopies * kThreads) {
      uint4 eight[kCopies];
#pragma unroll
      for (int j = 0; j < kCopies; ++j) {
        eight[j] = make_uint4(0, 0, 0, 0);
        if (chunk + j * kThreads < p.k / 8) {
          eight[j] = static_cast<const uint4*>(p.x)[chunk + j * kThreads];
        }
      }
      if (p.norm != nullptr && chunk >= kThreads) {
        fetch_norm(factors, chunk);
      }
#pragma unroll
      for (int j = 0; j < kCopies; ++j) {
        const int at = chunk + j * kThreads;
        if (p.norm != nullptr && at < p.k / 8) {
          multiply(eight[j].x, factors[j].x, square);
          multiply(eight[j].y, factors[j].y, square);
          multiply(eight[j].z, factors[j].z, square);
          multiply(eight[j].w, factors[j].w, square);
        }
        if (at - lane < chunks) {
          put(eight[j], at, at < chunks);
        }
      }
    }
    return square;
  }

  __device__ static void multiply(uint32_t& pair, uint32_t factors, float& square) {
    const float2 x = HalfPair<T>::floats(pair);
    const float2 factor = HalfPair<T>::floats(factors);
    square += x.x * x.x + x.y * x.y;
    pair = HalfPair<T>::of(x.x * factor.x, x.y * factor.y);
  }

  /// All lanes of a warp; `is_there`: whether the row has such a chunk.
  __device__ void put(const uint4& eight, int chunk, bool is_there) {
    uint4 ordered = eight;
    if constexpr (BITS == 8) {
      ordered = make_uint4(__byte_perm(eight.x, eight.y, 0x5410), __byte_perm(eight.x, eight.y, 0x7632),
                           __byte_perm(eight.z, eight.w, 0x5410), __byte_perm(eight.z, eight.w, 0x7632));
    }
    if (BITS == 4 && !PLAIN && p.is_tile_packed) {
      put_pairs(eight, chunk, is_there);
    } else if (is_there) {
      reinterpret_cast<uint4*>(copy)[chunk] = ordered;
    }
    const float2 a = HalfPair<T>::floats(eight.x), b = HalfPair<T>::floats(eight.y);
    const float2 c = HalfPair<T>::floats(eight.z), d = HalfPair<T>::floats(eight.w);
    float sum = (a.x + a.y) + (b.x + b.y) + ((c.x + c.y) + (d.x + d.y));
#pragma unroll
    for (int reach = kLanesOfGroup / 2; reach > 0; reach /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, reach);
    }
    if (is_there && lane % kLanesOfGroup == 0) {
      sums[chunk / kLanesOfGroup] = sum;
    }
  }

  /// A pair for each of the four lanes that share a row of the weight.
  __device__ void put_pairs(const uint4& eight, int chunk, bool is_there) {
    if (is_there) {
      uint32_t* to = reinterpret_cast<uint32_t*>(copy) + chunk / 4 * 16 + chunk % 4;
      to[0] = eight.x;
      to[4] = eight.y;
      to[8] = eight.z;
      to[12] = eight.w;
    }
  }

  __device__ void compute(const Place<TILES>& held, int place) {
    uint4 row[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      row[part] = reinterpret_cast<const uint4*>(copy)[place * (kDepth / 8) + part * 4 + lane % 4];
    }
#pragma unroll
    for (int from = 0; from < kParts; from += PARTS) {
      compute_group(held, row, from, place);
    }
  }

  __device__ void multiply_step(const Place<TILES>& held, const uint4 (&row)[kParts], int step,
                                int digit, float (&sum)[TILES / 2][4]) {
#pragma unroll
    for (int t = 0; t < TILES / 2; ++t) {
      uint32_t a[4];
      Code::template pairs<T>(held.codes[2 * t], step, digit, a[0], a[2]);
      Code::template pairs<T>(held.codes[2 * t + 1], step, digit, a[1], a[3]);
      const uint4& eight = row[step / 2];
      multiply_tile<T>(sum[t], a, step % 2 ? eight.z : eight.x, step % 2 ? eight.w : eight.y);
    }
  }

  /// Weights that have one scale.
  __device__ void compute_group(const Place<TILES>& held, const uint4 (&row)[kParts], int from,
                                int place) {
    float found[kChains][TILES / 2][4] = {};
#pragma unroll
    for (int step = from * 2; step < (from + PARTS) * 2; ++step) {
#pragma unroll
      for (int digit = 0; digit < Code::kDigits; ++digit) {
        multiply_step(held, row, step, digit, found[BITS == 8 ? digit : step % kChains]);
      }
    }
    const float sum = sums[place * (kParts / PARTS) + from / PARTS];
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      float product = found[0][t / 2][t % 2 * 2];
      if constexpr (kChains == 2) {
        product += (BITS == 8 ? 16.0f : 1.0f) * found[1][t / 2][t % 2 * 2];
      }
      product -= kOffset * sum;
      const int source = from * 8 + lane / 4;
      const uint32_t bits =
          kOwnScale ? held.scale[t] : __shfl_sync(kAllLanes, held.scale[t], source);
      const float one = scale_of<T>(bits, PLAIN ? 0 : p.has_float_scale);
      float added = 0.0f;
      if (!PLAIN && p.zero_kind != kNoZero) {
        const uint32_t zero_bits =
            kOwnScale ? held.zero[t] : __shfl_sync(kAllLanes, held.zero[t], source);
        const float zero = scale_of<T>(zero_bits, p.has_float_scale);
        product += p.zero_kind == kZeroPoint ? (Code::kMiddle - zero) * sum : 0.0f;
        added = p.zero_kind == kAddedZero ? zero * sum : 0.0f;
      }
      total[t / 2][t % 2 * 2] += one * product + added;
    }
  }

  /// The column of out that a thread writes; -1 for none. Which warp does changes, so that none is
  /// always late.
  __device__ int column_of(int first, int turn) const {
    const int row = static_cast<int>(threadIdx.x) - turn % WARPS * 32;
    const bool is_gated = p.gate != kNoGate;
    const int column = (is_gated ? first * 4 : first * 8) + row;
    return row >= 0 && row < (is_gated ? kRows / 2 : kRows) && column < (is_gated ? p.n / 2 : p.n)
               ? column
               : -1;
  }

  __device__ void fetch_residual(int column) {
    if (p.residual != nullptr && column >= 0) {
      residual = static_cast<const uint16_t*>(p.residual)[column];
    }
  }

  __device__ void run() {
    let_next_begin();
    aim();
    Place<TILES> held[kAhead];
    begin<0>(held);
    uint4 factors[kCopies];
    if (p.norm != nullptr) {
      fetch_norm(factors, threadIdx.x);
    }
    int first = blockIdx.x * TILES;
    int column = column_of(first, 0);
    wait_for_inputs();
    fetch_residual(column);
    const float square = copy_row(factors);
    __syncthreads();
    add_squares(square);
    int turn = 0;
#pragma unroll 1
    while (true) {
#pragma unroll 1
      for (int base = warp; base < places; base += kAhead * WARPS) {
        work<0>(held, base);
      }
      add_up(column, turn);
      first += gridDim.x * TILES;
      if (first >= tiles) {
        break;
      }
      ++turn;
      column = column_of(first, turn);
      fetch_residual(column);
    }
  }

  template <int AHEAD>
  __device__ void begin(Place<TILES> (&held)[kAhead]) {
    fetch<AHEAD>(held[AHEAD]);
    if constexpr (AHEAD + 1 < kAhead) {
      begin<AHEAD + 1>(held);
    }
  }

  /// Places of `held`, each of which is fetched anew at once.
  template <int AHEAD>
  __device__ void work(Place<TILES> (&held)[kAhead], int base) {
    if (base + AHEAD * WARPS < places) {
      compute(held[AHEAD], base + AHEAD * WARPS);
    }
    fetch<AHEAD>(held[AHEAD]);
    if constexpr (AHEAD + 1 < kAhead) {
      work<AHEAD + 1>(held, base);
    }
  }

  __device__ void add_squares(float square) {
    if (p.norm != nullptr) {
#pragma unroll
      for (int reach = 16; reach > 0; reach /= 2) {
        square += __shfl_xor_sync(kAllLanes, square, reach);
      }
      if (lane == 0) {
        shared.squares[warp] = square;
      }
    }
  }

  /// Puts the parts of all warps together and writes the result.
  __device__ void add_up(int column, int turn) {
    float(&here)[WARPS][kRows] = shared.parts[turn % 2];
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      if (lane % 4 == 0) {
        here[warp][t * 8 + lane / 4] = total[t / 2][t % 2 * 2];
      }
    }
#pragma unroll
    for (int t = 0; t < TILES / 2; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[t][i] = 0.0f;
      }
    }
    __syncthreads();
    if (column >= 0) {
      const float factor = p.norm != nullptr ? inverse() : 1.0f;
      float value;
      if (p.gate == kNoGate) {
        value = sum_of(here, lane, column, factor);
      } else {
        const int of_gate = lane / 8 * 16 + lane % 8;
        value = activated(sum_of(here, of_gate, column, factor), p.gate) *
                sum_of(here, of_gate + 8, column + p.n / 2, factor);
      }
      if (p.residual != nullptr) {
        value += HalfPair<T>::floats(residual).x;
      }
      static_cast<T*>(p.out)[column] = static_cast<T>(value);
    }
  }

  __device__ float sum_of(const float (&here)[WARPS][kRows], int row, int column,
                          float factor) const {
    float sum = 0.0f;
#pragma unroll
    for (int other = 0; other < WARPS; ++other) {
      sum += here[other][row];
    }
    sum *= factor;
    return p.bias != nullptr ? sum + static_cast<float>(static_cast<const T*>(p.bias)[column]) : sum;
  }

  /// One over the root of the mean square.
  __device__ float inverse() const {
    float all = 0.0f;
#pragma unroll
    for (int other = 0; other < WARPS; ++other) {
      all += shared.squares[other];
    }
    return rsqrtf(__fdividef(all, static_cast<float>(p.k)) + p.epsilon);
  }

  const OneRowProduct& p;
  Shared& shared;
  const int lane;
  const int warp;
  const int places;
  const int tiles;
  int next_first;
  int next_place;
  float* sums;  ///< [k / kGroup]
  T* copy;      ///< [k]
  const uint4* weight[TILES];
  int scale[TILES];
  uint32_t residual = 0;
  float total[TILES / 2][4] = {};
};

}  // namespace

#define AOTIP_ONE_ROW_WITH(BODY, BITS, KIND, TYPE, TILES, WARPS, PLACES, PARTS, PLAIN)             \
  extern "C" __global__ void __launch_bounds__(WARPS * 32, 16 / WARPS)                            \
      aotip_one_row_##BITS##_##KIND##_##TILES##_##WARPS##_##PARTS##_##PLAIN(const OneRowProduct p) { \
    using Product = OneRow<BITS, TYPE, TILES, WARPS, PLACES, PARTS, PLAIN != 0>;                  \
    BODY(__shared__ Product::Shared shared;                                                       \
         Product(p, shared, static_cast<float*>(launched_memory())).run();)                       \
  }

#define AOTIP_ALWAYS(...) __VA_ARGS__

// For products that have kernels of streamed_row.cu on newer GPUs: the image has room for one form.
// And for rows of float16 with 8 bits, or with 4 in groups of less than 128, which the general
// kernels take there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900
#define AOTIP_ON_OLDER_GPUS(...) __VA_ARGS__
#else
#define AOTIP_ON_OLDER_GPUS(...)
#endif

#define AOTIP_ONE_ROW(...) AOTIP_ONE_ROW_WITH(AOTIP_ALWAYS, __VA_ARGS__)

// As ops/one_row.cpp chooses: narrow ones for short weights, with more warps for long rows; wide ones.
#define AOTIP_ONE_ROW_NARROW(BITS, PARTS)                            \
  AOTIP_ONE_ROW(BITS, bf16, __nv_bfloat16, 2, 8, 4, PARTS, 1)        \
  AOTIP_ONE_ROW(BITS, bf16, __nv_bfloat16, 2, 16, 4, PARTS, 1)       \
  AOTIP_ONE_ROW_WITH(AOTIP_ON_OLDER_GPUS, BITS, f16, __half, 2, 8, 4, PARTS, 1)

#define AOTIP_ONE_ROW_STREAMED(PARTS)                                                      \
  AOTIP_ONE_ROW_WITH(AOTIP_ON_OLDER_GPUS, 4, bf16, __nv_bfloat16, 2, 8, 4, PARTS, 1)       \
  AOTIP_ONE_ROW_WITH(AOTIP_ON_OLDER_GPUS, 4, bf16, __nv_bfloat16, 2, 16, 4, PARTS, 1)      \
  AOTIP_ONE_ROW_WITH(AOTIP_ON_OLDER_GPUS, 4, bf16, __nv_bfloat16, 4, 8, 2, PARTS, 1)       \
  AOTIP_ONE_ROW_WITH(AOTIP_ON_OLDER_GPUS, 4, f16, __half, 2, 8, 4, PARTS, 1)

#define AOTIP_ONE_ROW_GENERAL(BITS, PARTS)                           \
  AOTIP_ONE_ROW(BITS, bf16, __nv_bfloat16, 2, 8, 4, PARTS, 0)        \
  AOTIP_ONE_ROW(BITS, f16, __half, 2, 8, 4, PARTS, 0)

AOTIP_ONE_ROW_STREAMED(1)
AOTIP_ONE_ROW_STREAMED(2)
AOTIP_ONE_ROW(4, bf16, __nv_bfloat16, 2, 8, 4, 4, 1)
AOTIP_ONE_ROW_WITH(AOTIP_ON_OLDER_GPUS, 4, bf16, __nv_bfloat16, 2, 16, 4, 4, 1)
AOTIP_ONE_ROW_WITH(AOTIP_ON_OLDER_GPUS, 4, bf16, __nv_bfloat16, 4, 8, 2, 4, 1)
AOTIP_ONE_ROW(4, f16, __half, 2, 8, 4, 4, 1)
AOTIP_ONE_ROW_GENERAL(4, 1)
AOTIP_ONE_ROW_GENERAL(4, 2)
AOTIP_ONE_ROW_GENERAL(4, 4)
AOTIP_ONE_ROW_NARROW(8, 1)
AOTIP_ONE_ROW_NARROW(8, 2)
AOTIP_ONE_ROW_GENERAL(8, 1)
AOTIP_ONE_ROW_GENERAL(8, 2)
