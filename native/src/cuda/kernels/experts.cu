// Rows times matrices of experts, of which each row has chosen one.
//
// Few rows are a block each. Many are put in order first, so that rows of one expert lie behind
// each other: blocks have up to 16 of them, and read the expert's matrix for all. How many there
// are is known to the GPU alone, so as many blocks are launched as there may be.

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
  wait_for_inputs();
  let_next_begin();  // only now: it may read the experts' numbers at once
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
  wait_for_inputs();
  let_next_begin();  // as above
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

/// A score as a number: those of larger ones are larger, and what is no number is the largest.
inline __device__ uint32_t ordered(float score) {
  const uint32_t bits = __float_as_uint(score + 0.0f);  // no negative zero
  const uint32_t number = static_cast<int32_t>(bits) < 0 ? ~bits : bits | 0x80000000u;
  return score == score ? number : ~uint32_t{0};
}

/// A block for each row. Some lanes count how many scores come before that of an expert, which is
/// its place; of equal ones that of the first expert comes first.
template <typename T>
__device__ void choose_experts(const ExpertChoice& p, ExpertScores& shared) {
  let_next_begin();
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x;
  wait_for_inputs();
  if (thread < p.count) {
    const float score = static_cast<float>(static_cast<const T*>(p.scores)[row * p.count + thread]);
    shared.scores[thread] = score;
    shared.numbers[thread] = ordered(score);
  }
  __syncthreads();
  const int expert = thread / p.lanes;
  const uint32_t own = shared.numbers[min(expert, p.count - 1)];
  int before = 0;
  for (int i = thread % p.lanes; i < p.count; i += p.lanes) {
    const uint32_t other = shared.numbers[i];
    before += other > own || (other == own && i < expert) ? 1 : 0;
  }
  for (int reach = p.lanes / 2; reach > 0; reach /= 2) {
    before += __shfl_xor_sync(kAllLanes, before, reach);
  }
  if (expert < p.count && before < p.chosen) {
    shared.chosen[before] = expert;
  }
  __syncthreads();
  if (thread >= 32) {
    return;
  }
  const float most = shared.scores[shared.chosen[0]];
  const int mine = shared.chosen[min(thread, p.chosen - 1)];
  const float share = thread < p.chosen ? __expf(shared.scores[mine] - most) : 0.0f;
  float all = share;
  if (p.is_normalised == 0) {
    all = 0.0f;
    for (int i = thread; i < p.count; i += 32) {
      all += __expf(shared.scores[i] - most);
    }
  }
  for (int reach = 16; reach > 0; reach /= 2) {
    all += __shfl_xor_sync(kAllLanes, all, reach);
  }
  if (thread < p.chosen) {
    p.shares[row * p.chosen + thread] = share / all;
    p.experts[row * p.chosen + thread] = mine;
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

#define AOTIP_CHOOSE_EXPERTS(KIND, TYPE)                                     \
  extern "C" __global__ void __launch_bounds__(kMostScores)                  \
      aotip_choose_experts_##KIND(const ExpertChoice p) {                    \
    choose_experts<TYPE>(p, *static_cast<ExpertScores*>(launched_memory())); \
  }

AOTIP_CHOOSE_EXPERTS(bf16, __nv_bfloat16)
AOTIP_CHOOSE_EXPERTS(f16, __half)
AOTIP_CHOOSE_EXPERTS(f32, float)

#define AOTIP_EXPERTS(BITS, KIND, TYPE)                            \
  extern "C" __global__ void __launch_bounds__(kProductWarps * 32) \
      aotip_experts_##BITS##_##KIND(const ExpertRowsProduct p) {   \
    multiply_experts<BITS, TYPE>(p);                               \
  }

#define AOTIP_EXPERTS_OF(KIND, TYPE)                                        \
  AOTIP_EXPERTS(4, KIND, TYPE)                                              \
  AOTIP_EXPERTS(8, KIND, TYPE)                                              \
  extern "C" __global__ void aotip_add_experts_##KIND(const ExpertSums p) { \
    add_experts<TYPE>(p);                                                   \
  }

AOTIP_EXPERTS_OF(bf16, __nv_bfloat16)
AOTIP_EXPERTS_OF(f16, __half)
