// Rows times matrices of experts, of which each row has chosen one.
//
// Few rows are a block each. Many are put in order first, so that rows of one expert lie behind each
// other: blocks have up to 16 of them, and read the expert's matrix for all. How many there are is
// known to the GPU alone, so as many blocks are launched as there may be.

#include "cuda/kernels/experts.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/warp.cuh"

// SmallProduct is in small_weights.cu, which kernels.cu takes in before.

using namespace aoti_plugins::cuda;

namespace {

/// Rows from `first` on in an order; without one, a row of its own.
struct ListedRows {
  const int32_t* order;
  int first;
  int rows;
  int repeats;

  __device__ int of_out(int i) const {
    return order != nullptr ? order[first + min(i, rows - 1)] : first;
  }

  __device__ int of_x(int i) const { return of_out(i) / repeats; }
};

/// Rows of kExpertRows, and ends of groups every 32 weights, for any number of rows and any groups:
/// there is one such kernel for a dtype, as the image has it for each GPU.
template <int BITS, typename T>
__device__ void multiply_experts(const ExpertRowsProduct& p) {
  constexpr int kDepth = Codes<BITS>::kDepth;
  let_next_begin();
  wait_for_inputs();
  const int block = static_cast<int>(blockIdx.x) / p.tile_blocks;
  ListedRows rows{p.order, block, 1, p.repeats};
  int expert = 0;
  if (p.order == nullptr) {
    expert = expert_of(p.experts, p.count, block);
  } else {
    const ExpertBlock& found = p.blocks[block];
    expert = found.expert;
    rows.first = found.first;
    rows.rows = found.rows;
  }
  if (rows.rows == 0) {
    return;
  }
  SmallWeightProduct own = p.product;
  own.m = rows.rows;
  const int64_t tile = static_cast<int64_t>(expert) * (own.n / kWeightTileRows);
  const int64_t tiles_along_k = (own.k + kDepth - 1) / kDepth;
  const int64_t groups_nbytes =
      tile * own.scale_tile_step * (own.has_float_scale != 0 ? sizeof(float) : sizeof(T));
  own.weight = static_cast<const char*>(own.weight) + tile * tiles_along_k * kWeightTileNbytes;
  own.scale = static_cast<const char*>(own.scale) + groups_nbytes;
  own.zero = own.zero != nullptr ? static_cast<const char*>(own.zero) + groups_nbytes : nullptr;
  SmallProduct<BITS, T, 2, kExpertRows / 8, 1, false, ListedRows>(
      own, blockIdx.x % static_cast<uint32_t>(p.tile_blocks), rows)
      .run();
}

/// One block. `memory`: two words for each expert, and one for each warp.
__device__ void order_rows(const ExpertOrder& p, uint32_t* memory) {
  let_next_begin();
  wait_for_inputs();
  uint32_t* const found = memory;
  uint32_t* const starts = memory + p.count;
  uint32_t* const warp_sums = starts + p.count;
  for (int expert = threadIdx.x; expert < p.count; expert += kExpertThreads) {
    found[expert] = 0;
  }
  __syncthreads();
  for (int row = threadIdx.x; row < p.rows; row += kExpertThreads) {
    atomicAdd(&found[expert_of(p.experts, p.count, row)], 1u);
  }
  __syncthreads();
  uint32_t rows_before = 0;
  uint32_t blocks_before = 0;
  for (int first = 0; first < p.count; first += kExpertThreads) {
    const int expert = first + static_cast<int>(threadIdx.x);
    const uint32_t rows = expert < p.count ? found[expert] : 0;
    const uint32_t blocks = (rows + kExpertRows - 1) / kExpertRows;
    const uint32_t row = rows_before + sum_before(rows, warp_sums);
    const uint32_t block = blocks_before + sum_before(blocks, warp_sums);
    if (expert < p.count) {
      starts[expert] = row;
    }
    for (uint32_t i = 0; i < blocks; ++i) {
      const uint32_t begin = i * kExpertRows;
      p.blocks[block + i] = {expert, static_cast<int32_t>(row + begin),
                             static_cast<int32_t>(min(rows - begin, uint32_t{kExpertRows}))};
    }
    if (threadIdx.x == kExpertThreads - 1) {
      warp_sums[0] = row + rows;
      warp_sums[1] = block + blocks;
    }
    __syncthreads();
    rows_before = warp_sums[0];
    blocks_before = warp_sums[1];
    __syncthreads();
  }
  for (int block = static_cast<int>(blocks_before + threadIdx.x); block < p.most_blocks;
       block += kExpertThreads) {
    p.blocks[block] = {0, 0, 0};
  }
  for (int row = threadIdx.x; row < p.rows; row += kExpertThreads) {
    p.order[atomicAdd(&starts[expert_of(p.experts, p.count, row)], 1u)] = row;
  }
}

/// A score, and whose it is.
struct Score {
  float value;
  int expert;  ///< count, where there is none

  /// Of equal scores that of the first expert comes first.
  __device__ bool is_before(const Score& other) const {
    return value > other.value || (!(value < other.value) && expert < other.expert);
  }
};

/// A warp for each row, of which a lane has every 32nd score.
template <typename T>
__device__ void choose_experts(const ExpertChoice& p) {
  let_next_begin();
  wait_for_inputs();
  const int lane = static_cast<int>(lane_index());
  const int row = static_cast<int>(blockIdx.x) * kChoiceRows + static_cast<int>(warp_index());
  if (row >= p.rows) {
    return;
  }
  const T* const scores = static_cast<const T*>(p.scores) + static_cast<int64_t>(row) * p.count;
  constexpr int kOwn = kMostScores / 32;
  float own[kOwn];
  float most = -INFINITY;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    own[i] = i * 32 + lane < p.count ? static_cast<float>(scores[i * 32 + lane]) : -INFINITY;
    most = fmaxf(most, own[i]);
  }
#pragma unroll
  for (int reach = 16; reach > 0; reach /= 2) {
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, reach));
  }
  float all = 0.0f;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    all += i * 32 + lane < p.count ? __expf(own[i] - most) : 0.0f;
  }
#pragma unroll
  for (int reach = 16; reach > 0; reach /= 2) {
    all += __shfl_xor_sync(kAllLanes, all, reach);
  }
  uint32_t taken = 0;
  Score mine{0.0f, 0};
  float of_chosen = 0.0f;
  for (int at = 0; at < p.chosen; ++at) {
    Score best{-INFINITY, p.count};
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const Score one{own[i], i * 32 + lane};
      if (one.expert < p.count && (taken >> i & 1) == 0 && one.is_before(best)) {
        best = one;
      }
    }
#pragma unroll
    for (int reach = 16; reach > 0; reach /= 2) {
      const Score other{__shfl_xor_sync(kAllLanes, best.value, reach),
                        __shfl_xor_sync(kAllLanes, best.expert, reach)};
      best = other.is_before(best) ? other : best;
    }
    // All lanes go on with the same, also where scores are no numbers.
    best = {__shfl_sync(kAllLanes, best.value, 0), __shfl_sync(kAllLanes, best.expert, 0)};
    taken |= best.expert % 32 == lane ? 1u << best.expert / 32 : 0u;
    const float share = __expf(best.value - most);
    of_chosen += share;
    mine = at == lane ? Score{share, best.expert} : mine;
  }
  if (lane < p.chosen) {
    const int64_t to = static_cast<int64_t>(row) * p.chosen + lane;
    p.shares[to] = mine.value / (p.is_normalised != 0 ? of_chosen : all);
    p.experts[to] = mine.expert;
  }
}

template <typename T>
__device__ void add_experts(const ExpertSums& p) {
  wait_for_inputs();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.numel;
       i += step) {
    const int64_t row = i / p.n;
    const T* from = static_cast<const T*>(p.product) + row * p.chosen * p.n + i % p.n;
    float sum = 0.0f;
    for (int at = 0; at < p.chosen; ++at) {
      sum += p.factors[row * p.chosen + at] * static_cast<float>(from[at * p.n]);
    }
    if (p.residual != nullptr) {
      sum += static_cast<float>(static_cast<const T*>(p.residual)[i]);
    }
    static_cast<T*>(p.out)[i] = static_cast<T>(sum);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kExpertThreads)
    aotip_order_experts(const ExpertOrder p) {
  order_rows(p, static_cast<uint32_t*>(launched_memory()));
}

#define AOTIP_CHOOSE_EXPERTS(KIND, TYPE)                                  \
  extern "C" __global__ void __launch_bounds__(kChoiceRows * 32)          \
      aotip_choose_experts_##KIND(const ExpertChoice p) {                 \
    choose_experts<TYPE>(p);                                              \
  }

AOTIP_CHOOSE_EXPERTS(bf16, __nv_bfloat16)
AOTIP_CHOOSE_EXPERTS(f16, __half)
AOTIP_CHOOSE_EXPERTS(f32, float)

#define AOTIP_EXPERTS(BITS, KIND, TYPE)                               \
  extern "C" __global__ void __launch_bounds__(kProductWarps * 32)    \
      aotip_experts_##BITS##_##KIND(const ExpertRowsProduct p) {      \
    multiply_experts<BITS, TYPE>(p);                                  \
  }

#define AOTIP_EXPERTS_OF(KIND, TYPE)                                         \
  AOTIP_EXPERTS(4, KIND, TYPE)                                               \
  AOTIP_EXPERTS(8, KIND, TYPE)                                               \
  extern "C" __global__ void aotip_add_experts_##KIND(const ExpertSums p) {  \
    add_experts<TYPE>(p);                                                    \
  }

AOTIP_EXPERTS_OF(bf16, __nv_bfloat16)
AOTIP_EXPERTS_OF(f16, __half)
