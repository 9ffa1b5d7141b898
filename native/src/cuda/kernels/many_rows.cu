// Products of many rows with weights of 4 and 8 bits, on tensor cores that read one factor from
// shared memory (compute capability 9.0).
//
// The weight goes from memory to registers, 16 of its rows to a warp, becomes 16-bit floats there
// and is the first factor of the tensor cores' products; it is never written back. Rows of x run
// through shared memory, in slabs of 64 elements of each, and the first warp sees to it that the
// next ones are on their way. Blocks of a cluster may divide k; then each adds up a share of the
// columns of all. Gate and residual are taken care of where sums become a result.

#include "cuda/kernels/many_rows.h"
#include "cuda/kernels/many_rows_end.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/small_weights.h"
#include "cuda/kernels/warp.cuh"
#include "cuda/kernels/weight_codes.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// Four lanes have eight weights in a row each, and get pair `lane % 4` of each of the four: what a
/// lane has of a product's first factor. Of 4 bits a word has the pairs of 32 weights along k.
inline __device__ uint32_t exchanged(uint32_t word, uint32_t lane) {
  const uint32_t own = lane & 1 ? 0xf0f0f0f0 : 0x0f0f0f0f;
  uint32_t other = __shfl_xor_sync(kAllLanes, word, 1);
  other = __funnelshift_l(other, other, lane & 1 ? 28 : 4);
  word = (word & own) | (other & ~own);
  other = __shfl_xor_sync(kAllLanes, word, 2);
  return __byte_perm(word, other, lane & 2 ? 0x3715 : 0x6240);
}

/// The same of 8 bits, where two words have the pairs of 32 weights; every other byte of a word is
/// of one pair.
inline __device__ void exchange(uint32_t& low, uint32_t& high, uint32_t lane) {
  const uint32_t other = __shfl_xor_sync(kAllLanes, lane & 2 ? low : high, 2);
  low = lane & 2 ? other : low;
  high = lane & 2 ? high : other;
  const uint32_t halves = lane & 1 ? 0x3726 : 0x5140;
  low = __byte_perm(low, __shfl_xor_sync(kAllLanes, low, 1), halves);
  high = __byte_perm(high, __shfl_xor_sync(kAllLanes, high, 1), halves);
}

/// Pairs of a word of 8-bit codes: seven bits become the low ones of a float, and the sign decides
/// what is taken off again.
template <typename T>
__device__ void signed_pairs(uint32_t word, uint32_t& low, uint32_t& high) {
  const auto pair = [](uint32_t bytes) {
    return fused_pairs<T>(masked_xor<0x007f007f>(bytes, HalfPair<T>::kMagic), HalfPair<T>::kOnes,
                          masked_xor<0x00800080>(bytes, HalfPair<T>::kMagic ^ 0x80008000));
  };
  low = pair(word);
  high = pair(word >> 8);
}

/// One block's tile of COLUMNS rows of x.
template <int BITS, typename T, int COLUMNS>
class ManyRows {
 public:
  __device__ ManyRows(const SmallWeightProduct& product, const ManyRowsShape& shape,
                      const TensorMap& map, char* memory)
      : p_(product),
        shape_(shape),
        map_(map),
        memory_(memory),
        full_(reinterpret_cast<Arrivals*>(memory + kMemoryNbytes)),
        empty_(full_ + kPlaces),
        is_copying_(__shfl_sync(kAllLanes, threadIdx.x / 32, 0) == 0),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        rank_(static_cast<int>(blockIdx.x) % shape.splits),
        tiles_along_k_((p_.k + kDepth - 1) / kDepth),
        first_(tiles_of(rank_)),
        last_(tiles_of(rank_ + 1)),
        is_gated_(shape.gate != kNoGate ? 1 : 0),
        first_row_(static_cast<int>(blockIdx.x) / shape.splits / shape.x_tiles *
                   (kRows >> is_gated_)),
        first_column_(static_cast<int>(blockIdx.x) / shape.splits % shape.x_tiles * COLUMNS) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      // Of a gate four warps have the first half, and the others the second.
      const int tiles = p_.n / 8 >> is_gated_;
      const int half = is_gated_ != 0 ? warp_ / 4 : 0;
      const int tile = first_row_ / 8 + (warp_ - half * 4) * kTiles + t;
      const int there = half * tiles + min(tile, tiles - 1);
      weight_[t] = static_cast<const uint4*>(p_.weight) +
                   (static_cast<int64_t>(there) * tiles_along_k_ + first_) * 32 + lane_;
      scale_[t] = there * p_.scale_tile_step + lane_ % 8 * p_.scale_row_step;
    }
  }

  __device__ void run() {
    let_next_begin();
    Held held;
    fetch(first_, held);
    if (threadIdx.x == 0) {
#pragma unroll 1
      for (int i = 0; i < kPlaces; ++i) {
        begin_arrivals(&full_[i], 1);
        begin_arrivals(&empty_[i], kManyRowsThreads / 32);
      }
      show_arrivals_to_copies();
    }
    __syncthreads();
    wait_for_inputs();
    next_copy_ = first_;
    if (is_copying_) {
#pragma unroll 1
      for (int place = 0; place < kPlaces; ++place) {
        copy_tile(place);
      }
    }
#pragma unroll 1
    for (int at = first_; at < last_; ++at) {
      Held now = held;
      finish(now);
      if (at + 1 < last_) {
        fetch(at + 1, held);
      }
      wait_for_turn(&full_[place_], turn_);
#pragma unroll 1
      for (int slab = 0; slab < kSlabs; ++slab) {
        const SharedLines lines = lines_at(memory_ + place_ * kPlaceNbytes + slab * kSlabNbytes);
        multiply(now, slab * 2, lines, 0, slab > 0 || at > first_);
        if (slab == 0 && at > first_) {
          leave_place();
        }
        multiply(now, slab * 2 + 1, lines, 1, true);
        if (BITS == 4) {
          second_half(now);
        }
      }
      if (++place_ == kPlaces) {
        place_ = 0;
        turn_ ^= 1;
      }
    }
    wait_for_group_tiles<0>();
    add_up();
  }

 private:
  using Code = Codes<BITS>;
  static constexpr ManyRowsTile kTile{COLUMNS};
  static constexpr int kRows = kManyRowsOfWeight;
  static constexpr int kMemoryNbytes = kTile.memory_nbytes();
  static constexpr int kDepth = Code::kDepth;
  static constexpr int kSlabs = kDepth / kSlabDepth;  ///< of a place in the ring
  static constexpr int kPlaces = kTile.slabs() / kSlabs;
  static constexpr int kSlabNbytes = COLUMNS * kSlabDepth * 2;
  static constexpr int kPlaceNbytes = kSlabs * kSlabNbytes;
  /// Tiles of eight rows of the weight that a warp has.
  static constexpr int kTiles = 2;

  /// What a warp has of one place along k. A lane has the scale of row `lane % 8` for the weights
  /// 32 * (lane / 8) and on, and a zero. `finish` puts both into one word: above the scale what is
  /// added to a weight, or to a code.
  struct Held {
    uint4 codes[kTiles];
    uint32_t scale[kTiles];
    uint32_t zero[kTiles];
  };

  __device__ int tiles_of(int part) const { return part * tiles_along_k_ / shape_.splits; }

  __device__ void fetch(int at, Held& held) {
    const int begin = min(at * kDepth + lane_ / 8 % (kDepth / 32) * 32, p_.k - 1);
    const int group = begin >> p_.group_shift;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      held.codes[t] = load_once(weight_[t]);
      weight_[t] += 32;
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int i = scale_[t] + group * p_.scale_group_step;
      held.scale[t] = static_cast<const uint16_t*>(p_.scale)[i];
      held.zero[t] = p_.zero_kind != kNoZero ? static_cast<const uint16_t*>(p_.zero)[i] : 0;
    }
  }

  /// Puts pairs to where a product wants them.
  __device__ void finish(Held& held) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      uint32_t zero = held.zero[t];
      if (p_.zero_kind == kZeroPoint) {
        zero = HalfPair<T>::of(Code::kMiddle - HalfPair<T>::floats(zero).x, 0.0f);
      }
      held.scale[t] |= zero << 16;
      uint4& codes = held.codes[t];
      if constexpr (BITS == 8) {
        exchange(codes.x, codes.y, lane_);
        exchange(codes.z, codes.w, lane_);
      } else if (p_.is_tile_packed == 0) {
        codes = make_uint4(exchanged(codes.x, lane_), exchanged(codes.y, lane_),
                           exchanged(codes.z, lane_), exchanged(codes.w, lane_));
      }
    }
  }

  /// The codes of the second slab of a tile take the place of the first one's.
  __device__ static void second_half(Held& held) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      held.codes[t].x = held.codes[t].z;
      held.codes[t].y = held.codes[t].w;
    }
  }

  /// Begins to copy what belongs to the next tiles along k, if there are any. All lanes of the
  /// first warp.
  __device__ void copy_tile(int place) {
    if (next_copy_ < last_ && is_chosen_lane()) {
      arrive_before(&full_[place], kPlaceNbytes);
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        copy_box(memory_ + place * kPlaceNbytes + slab * kSlabNbytes, map_,
                 next_copy_ * kDepth + slab * kSlabDepth, first_column_, &full_[place]);
      }
    }
    ++next_copy_;
    __syncwarp();
  }

  /// What is in the place before this one has been read by this warp; when it was by all, the next
  /// takes its place.
  __device__ void leave_place() {
    const int place = place_ == 0 ? kPlaces - 1 : place_ - 1;
    if (is_chosen_lane()) {
      arrive(&empty_[place]);
    }
    if (is_copying_) {
      wait_for_turn(&empty_[place], place_ == 0 ? turn_ ^ 1 : turn_);
      copy_tile(place);
    }
  }

  /// Adds the products of 32 weights of each row with half of a slab, part `part` of the tile. When
  /// it returns, those of the last call have ended.
  __device__ void multiply(const Held& held, int part, SharedLines lines, int half, bool adds) {
    uint32_t (&a)[2][4] = floats_[half];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const uint32_t both = __shfl_sync(kAllLanes, held.scale[t], part * 8 + lane_ / 4);
      uint32_t pairs[4];
      make_pairs(held.codes[t], half * 2, pairs[0], pairs[1]);
      make_pairs(held.codes[t], half * 2 + 1, pairs[2], pairs[3]);
      make_weights(pairs, __byte_perm(both, both, 0x1010), __byte_perm(both, both, 0x3232));
      a[0][t] = pairs[0];
      a[0][t + 2] = pairs[1];
      a[1][t] = pairs[2];
      a[1][t + 2] = pairs[3];
    }
    begin_group_tiles();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      multiply_group_tile<T, COLUMNS>(total_, a[step], lines, half * 2 + step, adds || step > 0);
    }
    end_group_tiles();
    wait_for_group_tiles<1>();
  }

  __device__ static void make_pairs(const uint4& codes, int step, uint32_t& low, uint32_t& high) {
    if constexpr (BITS == 8) {
      signed_pairs<T>(word_of(codes, step), low, high);
    } else {
      Code::template pairs<T>(codes, step, low, high);
    }
  }

  /// Of pairs of codes, in steps of one; a weight is rounded once, if its zero point is a
  /// whole number.
  __device__ void make_weights(uint32_t (&pairs)[4], uint32_t scale, uint32_t zero) const {
    if (Code::kIsOffset) {
      add_to(pairs, HalfPair<T>::kBelowMiddle);
    }
    const bool is_point = p_.zero_kind == kZeroPoint;
    if (is_point) {
      add_to(pairs, zero);
    }
#pragma unroll
    for (uint32_t& pair : pairs) {
      pair = fused_pairs<T>(pair, scale, is_point ? 0 : zero);
    }
  }

  __device__ static void add_to(uint32_t (&pairs)[4], uint32_t value) {
#pragma unroll
    for (uint32_t& pair : pairs) {
      pair = fused_pairs<T>(pair, HalfPair<T>::kOnes, value);
    }
  }

  /// Puts the sums of all blocks of the cluster together, and writes a share of the columns.
  __device__ void add_up() {
    float* const sums = reinterpret_cast<float*>(memory_);
    float* const own = sums + warp_ * 16 + lane_ / 4;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) {
      const int column = i / 4 * 8 + lane_ % 4 * 2 + i % 2;
      own[column * kManyRowsSumsStep + i / 2 % 2 * 8] = total_[i];
    }
    if (shape_.splits == 1) {
      __syncthreads();
    } else {
      meet_cluster();
    }
    const RowSums all{sums,
                      p_.bias,
                      shape_.residual,
                      p_.out,
                      COLUMNS,
                      (COLUMNS + shape_.splits - 1) / shape_.splits,
                      rank_,
                      shape_.splits,
                      shape_.gate,
                      p_.m,
                      p_.n >> is_gated_,
                      first_column_,
                      first_row_};
    if (is_gated_ != 0) {
      write_gated_sums<T>(all);
    } else {
      write_sums<T>(all);
    }
    if (shape_.splits > 1) {
      leave_cluster();
    }
  }

  const SmallWeightProduct& p_;
  const ManyRowsShape& shape_;
  const TensorMap& map_;
  char* const memory_;     ///< slabs, and at the end sums
  Arrivals* const full_;   ///< [places]
  Arrivals* const empty_;  ///< [places]
  const bool is_copying_;
  const int lane_;
  const int warp_;
  const int rank_;  ///< of the cluster's blocks
  const int tiles_along_k_;
  const int first_;         ///< of the block's tiles along k
  const int last_;          ///< behind them
  const int is_gated_;
  const int first_row_;     ///< of the weight, or of each half of it
  const int first_column_;  ///< of the result's transpose: a row of x
  const uint4* weight_[kTiles];
  int scale_[kTiles];
  int next_copy_;             ///< along k, in tiles
  int place_ = 0;             ///< that is read
  uint32_t turn_ = 0;         ///< how often, of two, the ring has come round
  uint32_t floats_[2][2][4];  ///< weights of products that run, and of the next
  float total_[COLUMNS / 2];
};

}  // namespace

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define AOTIP_MANY_ROWS_BODY(BODY) BODY;
#else
#define AOTIP_MANY_ROWS_BODY(BODY) __trap();
#endif

#define AOTIP_MANY_ROWS(BITS, KIND, TYPE, COLUMNS, BLOCKS)                                       \
  extern "C" __global__ void __launch_bounds__(kManyRowsThreads, BLOCKS)                         \
      aotip_many_rows_##BITS##_##KIND##_##COLUMNS(const SmallWeightProduct p,                    \
                                                  const ManyRowsShape shape,                     \
                                                  const __grid_constant__ TensorMap map) {       \
    AOTIP_MANY_ROWS_BODY((ManyRows<BITS, TYPE, COLUMNS>(p, shape, map, launched_lines()).run())) \
  }

#define AOTIP_MANY_ROWS_OF(BITS, KIND, TYPE) \
  AOTIP_MANY_ROWS(BITS, KIND, TYPE, 64, 2)   \
  AOTIP_MANY_ROWS(BITS, KIND, TYPE, 128, 2)  \
  AOTIP_MANY_ROWS(BITS, KIND, TYPE, 256, 1)

AOTIP_MANY_ROWS_OF(4, bf16, __nv_bfloat16)
AOTIP_MANY_ROWS_OF(4, f16, __half)
AOTIP_MANY_ROWS_OF(8, bf16, __nv_bfloat16)
AOTIP_MANY_ROWS_OF(8, f16, __half)
