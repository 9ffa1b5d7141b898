// Products of 2 to 16 rows with weights of 4 and 8 bits, bounded by the reading of the weights.
//
// The weight is the first factor of the tensor cores' products, 16 of its rows at a time, the rows
// of x are the columns of the second. A lane reads 16 bytes of a tile at once and turns two codes
// into two 16-bit floats with a shift and a logical operation: the code becomes the low bits of a
// float whose high bits are those of a power of two. What that adds to each weight is taken out
// again for a whole group, with the sums of x that a product with ones gives. The warps of a block
// have every n-th tile of the same rows and add up what they found at the end.

#include "cuda/kernels/float_codes.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/small_weights.h"
#include "cuda/kernels/warp.cuh"
#include "cuda/kernels/weight_codes.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// What a warp holds of one place along k: tiles of all its rows. A lane has the scale of row
/// `lane % 8` for the weights 32 * (lane / 8) and on, and what a sum of x adds for each of them; of
/// floats four of the scales, as they lie in memory.
template <int TILES>
struct Held {
  uint4 codes[TILES];
  float scale[TILES];
  float shift[TILES];
  uint32_t scales[TILES];
};

/// Rows of x and of the result, one behind the other.
struct RowsInOrder {
  __device__ int of_x(int i) const { return i; }
  __device__ int of_out(int i) const { return i; }
};

/// One block's share of a product: TILES * 8 rows of the weight, BLOCKS * 8 rows of x. Groups end
/// every PARTS * 32 weights, or there where that does no harm because the next has the same scale.
/// TILE_PACKED: the weight is as PyTorch packs it. ROWS says which rows of memory they are. FLOATS:
/// codes are floats, T is bfloat16, and PARTS does not matter.
template <int BITS, typename T, int TILES, int BLOCKS, int PARTS, bool TILE_PACKED = false,
          typename ROWS = RowsInOrder, bool FLOATS = false>
struct SmallProduct {
  using Code = Codes<BITS>;
  static constexpr int kDepth = Code::kDepth;
  static constexpr int kParts = kDepth / 32;
  /// Places along k whose bytes are on their way, as many as registers have room for.
  static constexpr int kAhead = TILES * BLOCKS == 2 ? 3 : 2;
  static constexpr int kFloatGroup = group_of_floats(BITS);
  static constexpr int kScaleWords = kDepth / kFloatGroup * 2;  ///< of floats, in a tile
  static constexpr float kOffset = (Code::kIsOffset ? HalfPair<T>::kOffset : 0.0f) + Code::kMiddle;

  __device__ SmallProduct(const SmallWeightProduct& product, uint32_t of_block, ROWS which = {})
      : p(product),
        rows(which),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        warps(blockDim.x / 32),
        tiles_along_k((p.k + kDepth - 1) / kDepth),
        floats(p.zero_kind),
        has_groups(p.group_shift != kGroupOfRow),
        first_tile(static_cast<int>(of_block) * TILES) {
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      const int tile = min(first_tile + t, p.n / 8 - 1);
      weight[t] = static_cast<const uint4*>(p.weight) +
                  (static_cast<int64_t>(tile) * tiles_along_k + warp) * 32 + lane;
      scale[t] = tile * p.scale_tile_step + (FLOATS ? 0 : lane % 8 * p.scale_row_step);
    }
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
      x[block] = static_cast<const T*>(p.x) + rows.of_x(block * 8 + lane / 4) * p.x_step;
    }
  }

  /// The next tiles of this warp, at `at` along k.
  __device__ void fetch(int at, Held<TILES>& held) {
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      held.codes[t] = load_once(weight[t]);
      weight[t] += warps * 32;
    }
    if constexpr (FLOATS) {
      fetch_float_scales(at, held);
    } else {
      fetch_scales(at, held);
    }
  }

  __device__ void fetch_scales(int at, Held<TILES>& held) const {
    const int begin = min(at * kDepth + lane / 8 % kParts * 32, p.k - 1);
    const int group = begin >> p.group_shift;
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      const int i = scale[t] + group * p.scale_group_step;
      held.scale[t] = load_scale<T>(p.scale, i, p.has_float_scale);
      if (p.zero_kind != kNoZero) {
        held.shift[t] = load_scale<T>(p.zero, i, p.has_float_scale);
      }
    }
  }

  __device__ void fetch_float_scales(int at, Held<TILES>& held) const {
    if (!has_groups) {
      return;
    }
    const int word = min(at * kScaleWords + lane % kScaleWords, p.scale_tile_step / 4 - 1);
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      held.scales[t] = static_cast<const uint32_t*>(p.scale)[scale[t] / 4 + word];
    }
  }

  /// Turns zeros into what the sum of x is multiplied with.
  __device__ void finish(Held<TILES>& held) const {
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      const float one = held.scale[t];
      held.shift[t] = p.zero_kind == kNoZero      ? -kOffset * one
                      : p.zero_kind == kZeroPoint ? (Code::kMiddle - kOffset - held.shift[t]) * one
                                                  : held.shift[t] - kOffset * one;
    }
  }

  /// Eight elements of a row of x for each 32 along k, as the order of the weights wants them.
  __device__ void fetch_x(int at, uint4 (&found)[BLOCKS][kParts]) const {
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int begin = at * kDepth + part * 32 + lane % 4 * 8;
        const bool is_there = block * 8 + lane / 4 < p.m && begin < p.k;
        if (!is_there) {
          found[block][part] = make_uint4(0, 0, 0, 0);
        } else if (TILE_PACKED) {
          found[block][part] = pairs_at(x[block] + begin - lane % 4 * 6);
        } else {
          found[block][part] = *reinterpret_cast<const uint4*>(x[block] + begin);
        }
      }
    }
  }

  /// Four pairs that are 8 elements apart.
  __device__ static uint4 pairs_at(const T* from) {
    const uint32_t* pair = reinterpret_cast<const uint32_t*>(from);
    return make_uint4(pair[0], pair[4], pair[8], pair[12]);
  }

  __device__ void compute(const Held<TILES>& held, const uint4 (&b)[BLOCKS][kParts]) {
    const uint32_t ones[4] = {HalfPair<T>::kOnes, HalfPair<T>::kOnes, HalfPair<T>::kOnes,
                              HalfPair<T>::kOnes};
#pragma unroll
    for (int from = 0; from < kParts; from += PARTS) {
      float found[TILES / 2][BLOCKS][4] = {};
      float sums[BLOCKS][4] = {};
#pragma unroll
      for (int step = from * 2; step < (from + PARTS) * 2; ++step) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
          const uint4& eight = b[block][step / 2];
          multiply_tile<T>(sums[block], ones, step % 2 ? eight.z : eight.x,
                           step % 2 ? eight.w : eight.y);
        }
#pragma unroll
        for (int t = 0; t < TILES / 2; ++t) {
          uint32_t a[4];
          Code::template pairs<T>(held.codes[2 * t], step, a[0], a[2]);
          Code::template pairs<T>(held.codes[2 * t + 1], step, a[1], a[3]);
#pragma unroll
          for (int block = 0; block < BLOCKS; ++block) {
            const uint4& eight = b[block][step / 2];
            multiply_tile<T>(found[t][block], a, step % 2 ? eight.z : eight.x,
                             step % 2 ? eight.w : eight.y);
          }
        }
      }
      const int source = from * 8 + lane / 4;
#pragma unroll
      for (int t = 0; t < TILES; ++t) {
        const float one = __shfl_sync(kAllLanes, held.scale[t], source);
        const float shift = __shfl_sync(kAllLanes, held.shift[t], source);
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
          for (int column = 0; column < 2; ++column) {
            total[t][block][column] += one * found[t / 2][block][t % 2 * 2 + column];
            total[t][block][column] += shift * sums[block][column];
          }
        }
      }
    }
  }

  /// Of floats: what a group's weights are multiplied with is so before their product.
  __device__ void compute_floats(const Held<TILES>& held, const uint4 (&b)[BLOCKS][kParts]) {
    // Of the four scales that a lane has, that of this lane's row, in the upper byte of both
    // halves.
    const uint32_t byte = 0x0404 | lane / 4 % 4 * 0x1010;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int group = (part * 32 + lane % 4 * 8) / kFloatGroup;
      uint32_t factor[TILES];
#pragma unroll
      for (int t = 0; t < TILES; ++t) {
        factor[t] = floats.factor_of_row();
        if (has_groups) {
          const uint32_t scales = __shfl_sync(kAllLanes, held.scales[t], group * 2 + lane / 16);
          factor[t] = floats.factor_of(__byte_perm(scales, 0, byte));
        }
      }
#pragma unroll
      for (int step = part * 2; step < part * 2 + 2; ++step) {
#pragma unroll
        for (int t = 0; t < TILES / 2; ++t) {
          uint32_t a[4];
          floats.pairs(held.codes[2 * t], step, a[0], a[2]);
          floats.pairs(held.codes[2 * t + 1], step, a[1], a[3]);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            a[i] = fused_pairs<T>(a[i], factor[2 * t + i % 2], 0);
          }
#pragma unroll
          for (int block = 0; block < BLOCKS; ++block) {
            const uint4& eight = b[block][step / 2];
            multiply_tile<T>(sums_of_floats[t][block], a, step % 2 ? eight.z : eight.x,
                             step % 2 ? eight.w : eight.y);
          }
        }
      }
    }
  }

  __device__ void run() {
    let_next_begin();
    Held<TILES> held[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      if (warp + ahead * warps < tiles_along_k) {
        fetch(warp + ahead * warps, held[ahead]);
      }
    }
    wait_for_inputs();
    for (int base = warp; base < tiles_along_k; base += warps * kAhead) {
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const int at = base + ahead * warps;
        if (at < tiles_along_k) {
          uint4 b[BLOCKS][kParts];
          fetch_x(at, b);
          if constexpr (FLOATS) {
            compute_floats(held[ahead], b);
          } else {
            finish(held[ahead]);
            compute(held[ahead], b);
          }
          if (at + warps * kAhead < tiles_along_k) {
            fetch(at + warps * kAhead, held[ahead]);
          }
        }
      }
    }
    add_up();
  }

  /// Puts the parts of all warps together and writes the result.
  __device__ void add_up() {
    constexpr int kRows = TILES * 8;
    constexpr int kColumns = BLOCKS * 8;
    __shared__ float parts[kProductWarps][kColumns][kRows];
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
#pragma unroll
      for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          parts[warp][block * 8 + lane % 4 * 2 + column][t * 8 + lane / 4] =
              FLOATS ? sums_of_floats[t / 2][block][t % 2 * 2 + column] : total[t][block][column];
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * p.m; i += blockDim.x) {
      const int row = i % kRows;
      const int to = first_tile * 8 + row;
      if (to < p.n) {
        const float bias =
            p.bias != nullptr ? static_cast<float>(static_cast<const T*>(p.bias)[to]) : 0.0f;
        float sum = FLOATS ? 0.0f : bias;
        for (int other = 0; other < warps; ++other) {
          sum += parts[other][i / kRows][row];
        }
        if constexpr (FLOATS) {
          sum = sum * (kFloatWhole * float_row_factor(p, to)) + bias;
        }
        static_cast<T*>(p.out)[static_cast<int64_t>(rows.of_out(i / kRows)) * p.n + to] =
            static_cast<T>(sum);
      }
    }
  }

  const SmallWeightProduct& p;
  const ROWS rows;
  const int lane;
  const int warp;
  const int warps;
  const int tiles_along_k;
  const FloatCodes<BITS> floats;
  const bool has_groups;
  const int first_tile;
  const uint4* weight[TILES];
  int scale[TILES];
  const T* x[BLOCKS];
  float total[TILES][BLOCKS][2] = {};
  float sums_of_floats[TILES / 2][BLOCKS][4] = {};
};

/// Eight weights in a row.
template <typename T>
struct alignas(16) Eight {
  T values[8];
};

/// Eight weights in a row, of a part of 32; the scale of their group is the `i`-th.
template <int BITS, typename T>
__device__ void unpack_floats(const SmallWeightProduct& p, const uint4& codes, int part, int i,
                              int row, Eight<T>& ret) {
  const FloatCodes<BITS> floats(p.zero_kind);
  const uint32_t factor =
      p.group_shift == kGroupOfRow
          ? floats.factor_of_row()
          : floats.factor_of(uint32_t{static_cast<const uint8_t*>(p.scale)[i]} << 8);
  const float all = HalfPair<T>::floats(factor).x * kFloatWhole * float_row_factor(p, row);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    ret.values[j] = static_cast<T>(floats.value(codes, part, j) * all);
  }
}

/// Weights as floats, `rows` from row `first` on: a block of 32 threads for each tile.
template <int BITS, typename T, bool FLOATS = false>
__device__ void unpack(const SmallWeightProduct& p, int first) {
  using Code = Codes<BITS>;
  constexpr int kParts = Code::kDepth / 32;
  const int tiles_along_k = (p.k + Code::kDepth - 1) / Code::kDepth;
  const int tile = first / 8 + static_cast<int>(blockIdx.x) / tiles_along_k;
  const int at = static_cast<int>(blockIdx.x) % tiles_along_k;
  const int lane = threadIdx.x;
  const int row = lane / 4;
  const uint4 codes = static_cast<const uint4*>(
      p.weight)[(static_cast<int64_t>(tile) * tiles_along_k + at) * 32 + lane];
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int begin = at * Code::kDepth + part * 32 + lane % 4 * 8;
    if (begin >= p.k) {
      return;
    }
    const int i = tile * p.scale_tile_step + (begin >> p.group_shift) * p.scale_group_step +
                  row * p.scale_row_step;
    Eight<T> eight;
    if constexpr (FLOATS) {
      unpack_floats<BITS>(p, codes, part, i, tile * 8 + row, eight);
    } else {
      const float scale = load_scale<T>(p.scale, i, p.has_float_scale);
      const float zero =
          p.zero_kind == kNoZero ? 0.0f : load_scale<T>(p.zero, i, p.has_float_scale);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float code = Code::value(codes, part, j);
        eight.values[j] =
            static_cast<T>(p.zero_kind == kZeroPoint ? (code + Code::kMiddle - zero) * scale
                                                     : code * scale + zero);
      }
    }
    const int64_t to = static_cast<int64_t>(tile * 8 + row - first) * p.k + begin;
    if (BITS == 4 && p.is_tile_packed) {
      const uint32_t* pairs = reinterpret_cast<const uint32_t*>(&eight);
      uint32_t* packed = static_cast<uint32_t*>(p.out) + (to - lane % 4 * 6) / 2;
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        packed[pair * 4] = pairs[pair];
      }
    } else {
      reinterpret_cast<Eight<T>*>(p.out)[to / 8] = eight;
    }
  }
}

}  // namespace

#define AOTIP_SMALL_WEIGHTS(BITS, KIND, TYPE, TILES, BLOCKS, PARTS)       \
  extern "C" __global__ void __launch_bounds__(kProductWarps * 32)        \
      aotip_small_weights_##BITS##_##KIND##_##TILES##_##BLOCKS##_##PARTS( \
          const SmallWeightProduct p) {                                   \
    SmallProduct<BITS, TYPE, TILES, BLOCKS, PARTS>(p, blockIdx.x).run();  \
  }

#define AOTIP_TILE_PACKED(TILES, BLOCKS, PARTS)                                      \
  extern "C" __global__ void __launch_bounds__(kProductWarps * 32)                   \
      aotip_tile_packed_##TILES##_##BLOCKS##_##PARTS(const SmallWeightProduct p) {   \
    SmallProduct<4, __nv_bfloat16, TILES, BLOCKS, PARTS, true>(p, blockIdx.x).run(); \
  }

#define AOTIP_SMALL_WEIGHTS_OF(BITS, PARTS)                   \
  AOTIP_SMALL_WEIGHTS(BITS, bf16, __nv_bfloat16, 4, 1, PARTS) \
  AOTIP_SMALL_WEIGHTS(BITS, bf16, __nv_bfloat16, 2, 1, PARTS) \
  AOTIP_SMALL_WEIGHTS(BITS, bf16, __nv_bfloat16, 2, 2, PARTS) \
  AOTIP_SMALL_WEIGHTS(BITS, f16, __half, 4, 1, PARTS)         \
  AOTIP_SMALL_WEIGHTS(BITS, f16, __half, 2, 2, PARTS)

AOTIP_SMALL_WEIGHTS_OF(4, 1)
AOTIP_SMALL_WEIGHTS_OF(4, 2)
AOTIP_SMALL_WEIGHTS_OF(4, 4)
AOTIP_SMALL_WEIGHTS_OF(8, 1)
AOTIP_SMALL_WEIGHTS_OF(8, 2)

AOTIP_TILE_PACKED(4, 1, 1)
AOTIP_TILE_PACKED(4, 1, 2)
AOTIP_TILE_PACKED(4, 1, 4)
AOTIP_TILE_PACKED(2, 2, 1)
AOTIP_TILE_PACKED(2, 2, 2)
AOTIP_TILE_PACKED(2, 2, 4)

#define AOTIP_UNPACK_WEIGHTS(BITS, KIND, TYPE)                                                \
  extern "C" __global__ void aotip_unpack_weights_##BITS##_##KIND(const SmallWeightProduct p, \
                                                                  int32_t first) {            \
    unpack<BITS, TYPE>(p, first);                                                             \
  }

AOTIP_UNPACK_WEIGHTS(4, bf16, __nv_bfloat16)
AOTIP_UNPACK_WEIGHTS(4, f16, __half)
AOTIP_UNPACK_WEIGHTS(8, bf16, __nv_bfloat16)
AOTIP_UNPACK_WEIGHTS(8, f16, __half)

#define AOTIP_SMALL_FLOATS(BITS, TILES, BLOCKS)                                                  \
  extern "C" __global__ void __launch_bounds__(kProductWarps * 32)                               \
      aotip_small_floats_##BITS##_bf16_##TILES##_##BLOCKS(const SmallWeightProduct p) {          \
    SmallProduct<BITS, __nv_bfloat16, TILES, BLOCKS, 1, false, RowsInOrder, true>(p, blockIdx.x) \
        .run();                                                                                  \
  }

#define AOTIP_FLOATS(BITS)                                                                 \
  AOTIP_SMALL_FLOATS(BITS, 4, 1)                                                           \
  AOTIP_SMALL_FLOATS(BITS, 2, 1)                                                           \
  AOTIP_SMALL_FLOATS(BITS, 2, 2)                                                           \
  extern "C" __global__ void aotip_unpack_floats_##BITS##_bf16(const SmallWeightProduct p, \
                                                               int32_t first) {            \
    unpack<BITS, __nv_bfloat16, true>(p, first);                                           \
  }

AOTIP_FLOATS(4)
AOTIP_FLOATS(8)
