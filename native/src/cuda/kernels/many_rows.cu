// Products of many rows with weights of 4 and 8 bits, on tensor cores that read one factor from
// shared memory (compute capability 9.0).
//
// The weight goes from memory to registers, 16 of its rows to a warp, becomes 16-bit floats there
// and is the first factor of the tensor cores' products; it is never written back. Rows of x run
// through shared memory, in slabs of 64 elements of each, and the first warp sees to it that the
// next ones are on their way. Blocks of a cluster may divide k; then each adds up a share of the
// columns of all. Gate and residual are taken care of where sums become a result.

#include "cuda/kernels/float_codes.cuh"
#include "cuda/kernels/many_rows.h"
#include "cuda/kernels/many_rows_end.cuh"
#include "cuda/kernels/pair_weights.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/small_weights.h"
#include "cuda/kernels/warp.cuh"
#include "cuda/kernels/weight_codes.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// One block's tile of COLUMNS rows of x. WEIGHTS makes pairs of weights of codes.
template <int BITS, int COLUMNS, typename T, typename WEIGHTS = PairWeights<BITS, T>>
class ManyRows {
 public:
  __device__ ManyRows(const SmallWeightProduct& product, const ManyRowsShape& shape,
                      const TensorMap& map, char* memory)
      : p_(product),
        shape_(shape),
        map_(map),
        weights_(product.zero_kind, product.group_shift != kGroupOfRow),
        pairs_(threadIdx.x % 32, product.is_tile_packed != 0),
        memory_(memory),
        lines_(lines_at(memory)),
        place_lines_(lines_),
        full_(reinterpret_cast<Arrivals*>(memory + kMemoryNbytes)),
        is_copying_(__shfl_sync(kAllLanes, threadIdx.x / 32, 0) == 0),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        tile_(blockIdx.x / shape.splits),
        rank_(static_cast<int>(blockIdx.x - tile_ * shape.splits)),
        first_(rank_ * shape.k_tiles + min(rank_, shape.more_k_tiles)),
        last_(first_ + shape.k_tiles + (rank_ < shape.more_k_tiles ? 1 : 0)),
        more_(first_ + 1 < last_),
        is_gated_(shape.gate != kNoGate ? 1 : 0),
        first_row_(static_cast<int>(shape.first_tile + tile_ / shape.x_tiles) *
                   (kRows >> is_gated_)),
        first_column_(static_cast<int>(tile_ % shape.x_tiles) * COLUMNS) {
    const int tiles_along_k = (p_.k + Code::kDepth - 1) / Code::kDepth;
    tiles_left_ = tiles_along_k - first_ * kCodes;
    next_ = first_ * kDepth + (lane_ / 8 & (kDepth / 32 - 1)) * 32;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      // Of a gate four warps have the first half, and the others the second.
      const int tiles = p_.n / 8 >> is_gated_;
      const int half = is_gated_ != 0 ? warp_ / 4 : 0;
      const int tile = first_row_ / 8 + (warp_ - half * 4) * kTiles + t;
      const int there = half * tiles + min(tile, tiles - 1);
      weight_[t] = static_cast<const uint4*>(p_.weight) +
                   (static_cast<int64_t>(there) * tiles_along_k + first_ * kCodes) * 32 + lane_;
      scale_[t] = there * p_.scale_tile_step + lane_ % 8 * p_.scale_row_step;
      set_factors(t, weights_.of_row());
    }
  }

  __device__ void run() {
    let_next_begin();
    fetch();
    if (threadIdx.x == 0) {
#pragma unroll 1
      for (int i = 0; i < kPlaces; ++i) {
        begin_arrivals(&full_[i], 1);
      }
      show_arrivals_to_copies();
    }
    __syncthreads();
    wait_for_inputs();
    if (kIsSpread) {
      take_all();
    }
    next_copy_ = first_;
    if (is_copying_) {
#pragma unroll 1
      for (int place = 0; place < kPlaces; ++place) {
        copy_place(place);
      }
    }
#pragma unroll 1
    for (int at = first_; at < last_; ++at) {
      more_ = at + (kIsSpread ? 2 : 1) < last_;
      if (!kIsSpread) {
        take_all();
      }
      take_scales();
      if (at + 1 < last_) {
        fetch_scales();
      }
      wait_for_turn(full_ + place_, turn_);
      multiply<0>(at > first_);
      if (at > first_) {
        // All have read the place before this one: its products have ended.
        __syncthreads();
        if (is_copying_) {
          copy_place(place_ == 0 ? kPlaces - 1 : place_ - 1);
        }
      }
      multiply<1>(true);
      multiply<2>(true);
      multiply<3>(true);
      place_lines_ += kPlaceNbytes / kLinesUnit;
      if (++place_ == kPlaces) {
        place_ = 0;
        place_lines_ = lines_;
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
  static constexpr int kSumsNbytes = kTile.sums_nbytes();
  static constexpr int kDepth = kPlaceDepth;
  static constexpr int kCodes = kDepth / Code::kDepth;  ///< tiles of the weight along k in a place
  static constexpr int kWords = BITS / 4;               ///< of 32 weights that a lane has
  static constexpr int kSlabs = kDepth / kSlabDepth;    ///< of a place in the ring
  static constexpr int kPlaces = kTile.slabs() / kSlabs;
  static constexpr int kSlabNbytes = COLUMNS * kSlabDepth * 2;
  static constexpr int kPlaceNbytes = kSlabs * kSlabNbytes;
  /// Parts of the next place are taken between the products of this one: what tensor cores do then
  /// takes longer. Else all of it is, at the place's beginning, so that it is read long before.
  static constexpr bool kIsSpread = COLUMNS == 256;
  /// Tiles of eight rows of the weight that a warp has.
  static constexpr int kTiles = 2;

  /// What a warp has of one place along k. A lane has the scale of row `lane % 8` for the weights
  /// 32 * (lane / 8) and on, and a zero.
  struct Held {
    uint4 codes[kTiles][kCodes];
    uint16_t scale[kTiles];
    uint16_t zero[kTiles];
  };

  /// Begins to read what is next along k.
  __device__ void fetch() {
    fetch_codes<0>();
    if constexpr (kCodes > 1) {
      fetch_codes<kCodes - 1>();
    }
    fetch_scales();
  }

  /// Tile CODE along k of the next place: the first ones first.
  template <int CODE>
  __device__ void fetch_codes() {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      held_.codes[t][CODE] = load_once(weight_[t] + (CODE < tiles_left_ ? CODE * 32 : 0));
    }
    if constexpr (CODE == kCodes - 1) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        weight_[t] += kCodes * 32;
      }
      tiles_left_ -= kCodes;
    }
  }

  __device__ void fetch_scales() {
    if (!weights_.has_groups()) {
      return;
    }
    const int last = WEIGHTS::kIsFloat ? p_.k - 32 : p_.k - 1;
    const int group = (min(next_, last) >> p_.group_shift) * p_.scale_group_step;
    next_ += kDepth;
    if constexpr (WEIGHTS::kIsFloat) {
      const auto* const scales = static_cast<const uint8_t*>(p_.scale) + group;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        held_.scale[t] = scales[scale_[t]];
        if (BITS == 4) {
          held_.scale[t] |= scales[scale_[t] + kWeightTileRows] << 8;
        }
      }
    } else {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        held_.scale[t] = static_cast<const uint16_t*>(p_.scale)[scale_[t] + group];
      }
      if (p_.zero_kind != kNoZero) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          held_.zero[t] = static_cast<const uint16_t*>(p_.zero)[scale_[t] + group];
        }
      }
    }
  }

  __device__ void take_all() {
    take<0>();
    take<1>();
    take<2>();
    take<3>();
  }

  /// Takes part PART of what was read, with pairs where a product wants them, and reads on once all
  /// of a tile is taken.
  template <int PART>
  __device__ void take() {
    constexpr int kCode = PART * 32 / Code::kDepth;
    constexpr int kWord = PART % (Code::kDepth / 32) * kWords;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        codes_[t][PART][i] = word_of(held_.codes[t][kCode], kWord + i);
      }
      pairs_.exchange(codes_[t][PART]);
    }
    if (kWord + kWords == 4 && more_) {
      fetch_codes<kCode>();
    }
  }

  __device__ void take_scales() {
    if (weights_.has_groups()) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        if constexpr (WEIGHTS::kIsFloat) {
          group_[t] = weights_.of_group(held_.scale[t]);
        } else {
          group_[t] = weights_.of_group(HalfPair<T>::floats(held_.scale[t]).x,
                                        HalfPair<T>::floats(held_.zero[t]).x);
        }
      }
    }
  }

  __device__ void set_factors(int t, uint32_t group) {
    factor_[t] = __byte_perm(group, group, 0x1010);
    added_[t] = __byte_perm(group, group, 0x3232);
  }

  /// Begins to copy what belongs to the next place along k, if there is one. All lanes of the first
  /// warp.
  __device__ void copy_place(int place) {
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

  /// Adds the products of 32 weights of each row, part PART of the place. When it returns, those of
  /// the last call have ended.
  template <int PART>
  __device__ void multiply(bool adds) {
    constexpr int kHalf = PART % 2;  // of a slab
    if ((shape_.scaled_parts & 1 << PART) != 0) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        set_factors(t, __shfl_sync(kAllLanes, group_[t], PART * 8 + lane_ / 4));
      }
    }
    uint32_t pairs[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      weights_.cut_out(codes_[t][PART][0], codes_[t][PART][kWords - 1], pairs[t]);
    }
    weights_.make(pairs, factor_, added_);
    uint32_t (&a)[2][4] = floats_[kHalf];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      a[0][t] = pairs[t][0];
      a[0][t + 2] = pairs[t][1];
      a[1][t] = pairs[t][2];
      a[1][t + 2] = pairs[t][3];
    }
    const SharedLines lines = place_lines_ + PART / 2 * kSlabNbytes / kLinesUnit;
    begin_group_tiles();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      multiply_group_tile<T, COLUMNS>(total_, a[step], lines, kHalf * 2 + step, adds || step > 0);
    }
    end_group_tiles();
    if (kIsSpread) {
      take<PART>();
    }
    wait_for_group_tiles<1>();
  }

  /// Puts the sums of all blocks of the cluster together, rounds them, and writes a share of the
  /// columns.
  __device__ void add_up() {
    find_around();
    T* const rounded = reinterpret_cast<T*>(memory_ + (shape_.splits == 1 ? 0 : kSumsNbytes));
    // Of the eight columns and 16 rows that a warp has at once, where this lane's column begins.
    T* const to = rounded + lane_ % 8 * kManyRowsStep + warp_ * 16 + (lane_ & 8);
    const int first_column = rank_ * shape_.own_eights * 8;
    const int columns = min(shape_.own_eights * 8, COLUMNS - first_column);
    __syncthreads();  // all have read x
    if (shape_.splits == 1) {
#pragma unroll
      for (int i = 0; i < COLUMNS / 2; i += 4) {
        round(four_of(i), to + i / 4 * 8 * kManyRowsStep);
      }
    } else {
      auto* const own = reinterpret_cast<float4*>(memory_) + threadIdx.x;
#pragma unroll
      for (int i = 0; i < COLUMNS / 2; i += 4) {
        own[i / 4 * kManyRowsThreads] = four_of(i);
      }
      meet_cluster();
      add_parts(own + first_column / 8 * kManyRowsThreads, columns / 8, to);
    }
    __syncthreads();
    write_rounded<T>({rounded, shape_.residual, p_.out,
                      min(columns, p_.m - first_column_ - first_column), shape_.gate,
                      p_.n >> is_gated_, first_column_ + first_column, first_row_});
    if (shape_.splits > 1) {
      leave_cluster();
    }
  }

  /// Sums of two rows and two columns.
  __device__ float4 four_of(int i) const {
    return make_float4(total_[i], total_[i + 1], total_[i + 2], total_[i + 3]);
  }

  /// Two columns of two rows each to a result of 16 bits.
  __device__ void round(float4 sums, T* to) const {
    store_columns(
        to, HalfPair<T>::of(sums.x * sum_factor_[0] + bias_[0], sums.y * sum_factor_[0] + bias_[0]),
        HalfPair<T>::of(sums.z * sum_factor_[1] + bias_[1], sums.w * sum_factor_[1] + bias_[1]));
  }

  /// Adds up the block's own columns of all blocks of the cluster. `own`: this thread's in the
  /// first eight of them.
  __device__ void add_parts(const float4* own, int eights, T* to) const {
    constexpr int kAtOnce = 2;
#pragma unroll 1
    for (int first = 0; first < eights; first += kAtOnce) {
      float4 sums[kAtOnce] = {};
#pragma unroll 1
      for (int block = 0; block < shape_.splits; ++block) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const float4 more =
              load_of_block(own + min(first + i, eights - 1) * kManyRowsThreads, block);
          sums[i] = make_float4(sums[i].x + more.x, sums[i].y + more.y, sums[i].z + more.z,
                                sums[i].w + more.w);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < eights) {
          round(sums[i], to + (first + i) * 8 * kManyRowsStep);
        }
      }
    }
  }

  /// What sums of this lane's rows are multiplied by, and what is added then.
  __device__ void find_around() {
    const int half = is_gated_ != 0 ? warp_ / 4 : 0;
    const int rows = p_.n >> is_gated_;
    const int row = first_row_ + (warp_ - half * 4) * 16 + lane_ / 4;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      if constexpr (WEIGHTS::kIsFloat) {
        sum_factor_[t] =
            weights_.whole(float_row_factor(p_, half * rows + min(row + t * 8, rows - 1)));
      } else {
        const uint32_t scale = static_cast<const uint16_t*>(p_.scale)[scale_[t]];
        sum_factor_[t] =
            weights_.whole(HalfPair<T>::floats(__shfl_sync(kAllLanes, scale, lane_ / 4)).x);
      }
      bias_[t] = p_.bias == nullptr
                     ? 0.0f
                     : HalfPair<T>::floats(static_cast<const uint16_t*>(
                                               p_.bias)[half * rows + min(row + t * 8, rows - 1)])
                           .x;
    }
  }

  const SmallWeightProduct& p_;
  const ManyRowsShape& shape_;
  const TensorMap& map_;
  const WEIGHTS weights_;
  const PairExchange<BITS> pairs_;
  char* const memory_;  ///< slabs, and at the end sums
  const SharedLines lines_;
  SharedLines place_lines_;  ///< of the place that is read
  Arrivals* const full_;     ///< [places]
  const bool is_copying_;
  const int lane_;
  const int warp_;
  const unsigned int tile_;  ///< of the launch's
  const int rank_;           ///< of the cluster's blocks
  const int first_;          ///< of the block's places along k
  const int last_;           ///< behind them
  bool more_;                ///< whether a place follows what is read
  const int is_gated_;
  const int first_row_;     ///< of the weight, or of each half of it
  const int first_column_;  ///< of the result's transpose: a row of x
  const uint4* weight_[kTiles];
  int scale_[kTiles];
  int tiles_left_;     ///< of the weight along k, from where this lane reads next
  int next_copy_;      ///< along k, in places
  int place_ = 0;      ///< that is read
  uint32_t turn_ = 0;  ///< how often, of two, the ring has come round
  int next_;           ///< along k, whose scale this lane reads next
  Held held_;          ///< what is read
  uint32_t codes_[kTiles][kDepth / 32][kWords];  ///< of the next products
  uint32_t group_[kTiles];   ///< factors of the rows and groups whose scale this lane has
  uint32_t factor_[kTiles];  ///< of the part's group and a row
  uint32_t added_[kTiles];
  uint32_t floats_[2][2][4];  ///< weights of products that run, and of the next
  float total_[COLUMNS / 2];
  float sum_factor_[kTiles];  ///< of sums of this lane's rows
  float bias_[kTiles];
};

}  // namespace

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define AOTIP_MANY_ROWS_BODY(BODY) BODY;
#else
#define AOTIP_MANY_ROWS_BODY(BODY) __trap();
#endif

#define AOTIP_MANY_ROWS(NAME, BITS, COLUMNS, BLOCKS, ...)                              \
  extern "C" __global__ void __launch_bounds__(kManyRowsThreads, BLOCKS)               \
      NAME##_##COLUMNS(const SmallWeightProduct p, const ManyRowsShape shape,          \
                       const __grid_constant__ TensorMap map) {                        \
    AOTIP_MANY_ROWS_BODY(                                                              \
        (ManyRows<BITS, COLUMNS, __VA_ARGS__>(p, shape, map, launched_lines()).run())) \
  }

#define AOTIP_MANY_ROWS_OF(NAME, BITS, ...)                        \
  AOTIP_MANY_ROWS(NAME, BITS, 64, 2, __VA_ARGS__)                  \
  AOTIP_MANY_ROWS(NAME, BITS, 128, BITS == 4 ? 2 : 1, __VA_ARGS__) \
  AOTIP_MANY_ROWS(NAME, BITS, 256, 1, __VA_ARGS__)

AOTIP_MANY_ROWS_OF(aotip_many_rows_4_bf16, 4, __nv_bfloat16)
AOTIP_MANY_ROWS_OF(aotip_many_rows_4_f16, 4, __half)
AOTIP_MANY_ROWS_OF(aotip_many_rows_8_bf16, 8, __nv_bfloat16)
AOTIP_MANY_ROWS_OF(aotip_many_rows_8_f16, 8, __half)
AOTIP_MANY_ROWS_OF(aotip_many_floats_4_bf16, 4, __nv_bfloat16, FloatWeights<4>)
AOTIP_MANY_ROWS_OF(aotip_many_floats_8_bf16, 8, __nv_bfloat16, FloatWeights<8>)
