// Draws a token: shares by temperature, the limits top-k, top-p and min-p, and of what is left the
// token in whose share a random number falls. Nothing is sorted: tokens are counted by how deep
// they lie below the likeliest one, and only the interval in which a limit ends is looked at
// closer. Five kernels, each with what the last of its blocks makes of what all have found.

#include <cstring>

#include "cuda/kernels/drawn_token.h"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

namespace {

using Atomic = unsigned long long;

constexpr uint32_t kDrawWarps = kDrawThreads / kWarp;
constexpr uint32_t kOwnBins = kDrawBins / kDrawThreads;
constexpr uint32_t kDigitBits = 8;
static_assert(kDrawThreads == 1 << kDigitBits && kMostDrawBlocks <= kDrawThreads);

constexpr uint64_t kNoEnd = ~uint64_t{0};
constexpr uint64_t kMinusInfinity = uint64_t{0xfff} << 52;

enum Setting { kPenalty, kTemperature, kTopK, kTopP, kMinP, kNumber };

__device__ double setting(const Draw& draw, Setting which) {
  return draw.settings[which];
}

__device__ uint64_t bits_of(double value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

__device__ double of_bits(uint64_t bits) {
  double value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// A token as the likeliest one sees it. Depths are not negative, so their bits are in their order.
struct Token {
  __device__ Token(const Draw& draw, uint32_t token, double most, double temperature)
      : depth((most - draw.logits[token]) / temperature) {}

  __device__ bool has_share() const { return depth < kDrawDepth; }  // not where it is NaN
  __device__ uint32_t bin() const {
    return static_cast<uint32_t>(depth * (kDrawBins / kDrawDepth));
  }
  __device__ double power() const { return exp(-depth); }
  __device__ uint64_t share() const { return static_cast<uint64_t>(power() * kDrawUnits + 0.5); }

  double depth;
};

__device__ Token token_at(const Draw& draw, uint32_t token) {
  return Token(draw, token, draw.state->most, setting(draw, kTemperature));
}

/// The tokens of a block.
struct Part {
  __device__ Part(const Draw& draw, uint32_t block)
      : begin(block * draw.per_block),
        end(begin + draw.per_block < draw.n_tokens ? begin + draw.per_block : draw.n_tokens) {}
  uint32_t begin;
  uint32_t end;
};

/// What threads of a block tell each other.
struct DrawMemory {
  uint64_t sums[kDrawWarps];
  uint64_t least[kDrawWarps];
  uint64_t most[kDrawWarps];
  uint64_t digits[kDrawThreads];
  uint64_t before;
  uint32_t place;
  bool is_last;
};

/// The sum of the values of all threads before this one; `*total` is that of all.
__device__ uint64_t shares_before(uint64_t value, DrawMemory& memory, uint64_t* total) {
  const uint64_t sum = sum_of_lanes(value);
  if (lane_index() == kWarp - 1) {
    memory.sums[warp_index()] = sum;
  }
  __syncthreads();
  uint64_t before = 0;
  uint64_t all = 0;
  for (uint32_t warp = 0; warp < kDrawWarps; ++warp) {
    before += warp < warp_index() ? memory.sums[warp] : 0;
    all += memory.sums[warp];
  }
  __syncthreads();
  *total = all;
  return before + sum - value;
}

/// The largest value of all threads.
__device__ double largest(double value, DrawMemory& memory) {
  for (uint32_t reach = kWarp / 2; reach > 0; reach /= 2) {
    const double other = __shfl_xor_sync(kAllLanes, value, reach);
    value = other > value ? other : value;
  }
  if (lane_index() == 0) {
    memory.most[warp_index()] = bits_of(value);
  }
  __syncthreads();
  for (uint32_t warp = 0; warp < kDrawWarps; ++warp) {
    const double other = of_bits(memory.most[warp]);
    value = other > value ? other : value;
  }
  __syncthreads();
  return value;
}

/// Whether all other blocks are done, so that this one sees what they have found.
__device__ bool is_last_block(uint32_t* arrived, DrawMemory& memory) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.is_last = atomicAdd(arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  __threadfence();
  return memory.is_last;
}

/// Where a limit ends among elements in the order of their keys.
struct End {
  uint64_t key;     ///< the last key of which something is taken
  uint64_t before;  ///< the weights of all smaller keys
};

/// Finds the last key before which less than `target` is, of `count` elements with `key_of(i)`, a
/// number or kNoEnd for what does not count, and `weight_of(i)`; from the highest bits on in which
/// keys differ.
template <typename KeyOf, typename WeightOf>
__device__ End find_end(uint32_t count, const KeyOf& key_of, const WeightOf& weight_of,
                        uint64_t target, DrawMemory& memory) {
  uint64_t first = 0;
  uint64_t last = kNoEnd - 1;
  uint64_t before = 0;
  while (true) {
    uint64_t least = kNoEnd;
    uint64_t most = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kDrawThreads) {
      const uint64_t key = key_of(i);
      if (key >= first && key <= last) {
        least = key < least ? key : least;
        most = key > most ? key : most;
      }
    }
    for (uint32_t reach = kWarp / 2; reach > 0; reach /= 2) {
      const uint64_t low = __shfl_xor_sync(kAllLanes, least, reach);
      const uint64_t high = __shfl_xor_sync(kAllLanes, most, reach);
      least = low < least ? low : least;
      most = high > most ? high : most;
    }
    if (lane_index() == 0) {
      memory.least[warp_index()] = least;
      memory.most[warp_index()] = most;
    }
    memory.digits[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t warp = 0; warp < kDrawWarps; ++warp) {
      least = memory.least[warp] < least ? memory.least[warp] : least;
      most = memory.most[warp] > most ? memory.most[warp] : most;
    }
    if (least >= most) {
      __syncthreads();
      return {least, before};
    }
    const int width = 64 - __clzll(static_cast<long long>(most - least));
    const int shift = width > static_cast<int>(kDigitBits) ? width - kDigitBits : 0;
    for (uint32_t i = threadIdx.x; i < count; i += kDrawThreads) {
      const uint64_t key = key_of(i);
      if (key >= least && key <= most) {
        atomicAdd(reinterpret_cast<Atomic*>(&memory.digits[(key - least) >> shift]),
                  static_cast<Atomic>(weight_of(i)));
      }
    }
    if (threadIdx.x == 0) {  // for where all of it is less
      memory.place = static_cast<uint32_t>((most - least) >> shift);
      memory.before = kNoEnd;
    }
    __syncthreads();
    const uint64_t own = memory.digits[threadIdx.x];
    uint64_t total = 0;
    const uint64_t smaller = before + shares_before(own, memory, &total);
    if (smaller < target && target <= smaller + own) {
      memory.place = threadIdx.x;
      memory.before = smaller;
    }
    __syncthreads();
    const uint64_t digit = memory.place;
    before = memory.before != kNoEnd ? memory.before : before + total - memory.digits[digit];
    first = least + (digit << shift);
    last = first + ((uint64_t{1} << shift) - 1);
    __syncthreads();
  }
}

/// Units of the intervals before `end` that are this thread's, `value_of(bin)` in each.
template <typename ValueOf>
__device__ uint64_t own_units(uint32_t end, const ValueOf& value_of) {
  const uint32_t begin = threadIdx.x * kOwnBins;
  uint64_t own = 0;
  for (uint32_t bin = begin; bin < begin + kOwnBins; ++bin) {
    own += bin < end ? value_of(bin) : 0;
  }
  return own;
}

/// Finds the interval in which the `target`-th unit is, of those before `end`; -1 where all have
/// less. `*before` are the units of the intervals before it.
template <typename ValueOf>
__device__ int32_t find_bin(uint32_t end, const ValueOf& value_of, uint64_t target,
                            DrawMemory& memory, uint64_t* before) {
  const uint64_t own = own_units(end, value_of);
  uint64_t total = 0;
  uint64_t sum = shares_before(own, memory, &total);
  if (threadIdx.x == 0) {
    memory.place = kDrawBins;
  }
  __syncthreads();
  if (sum < target && target <= sum + own) {
    uint32_t bin = threadIdx.x * kOwnBins;
    while (sum + value_of(bin) < target) {
      sum += value_of(bin);
      ++bin;
    }
    memory.place = bin;
    memory.before = sum;
  }
  __syncthreads();
  const bool is_there = memory.place < kDrawBins;
  const int32_t found = is_there ? static_cast<int32_t>(memory.place) : -1;
  *before = is_there ? memory.before : total;
  __syncthreads();
  return found;
}

/// Finds where top-p ends, when it is known that of the shares `all` are left, those of the
/// intervals before `end` and of what is left in interval `end`.
__device__ void find_cut(const Draw& draw, uint64_t all, uint32_t end, DrawMemory& memory) {
  DrawState& state = *draw.state;
  const double top_p = setting(draw, kTopP);
  int32_t bin = -1;
  uint64_t before = 0;
  uint64_t target = 0;
  if (top_p < 1) {
    target = static_cast<uint64_t>(ceil(top_p * static_cast<double>(all)));
    target = target > 0 ? target : 1;
    bin = find_bin(end, [&](uint32_t i) { return state.shares[i]; }, target, memory, &before);
    bin = bin < 0 && end < kDrawBins ? static_cast<int32_t>(end) : bin;
  }
  if (threadIdx.x == 0) {
    state.cut_bin = bin;
    state.cut_share = target - before;
    state.cut_depth = kNoEnd;
    state.cut_token = ~uint32_t{0};
  }
}

/// Lists the tokens of the interval in which a limit ends that are no deeper than `deepest`, in any
/// order. Whether this block is the last one to do so; not where the limit ends nowhere.
__device__ bool list_tokens(const Draw& draw, int32_t bin, uint64_t deepest, uint32_t* n_listed,
                            uint32_t* arrived, DrawMemory& memory) {
  if (bin < 0) {
    return false;
  }
  const Part part(draw, blockIdx.x);
  for (uint32_t i = part.begin + threadIdx.x; i < part.end; i += kDrawThreads) {
    const Token token = token_at(draw, i);
    if (token.has_share() && token.bin() == static_cast<uint32_t>(bin) &&
        bits_of(token.depth) <= deepest) {
      draw.listed[atomicAdd(n_listed, 1u)] = i;
    }
  }
  return is_last_block(arrived, memory);
}

/// Whether a token may be drawn.
__device__ bool is_left(const Draw& draw, uint32_t i, const Token& token) {
  const DrawState& state = *draw.state;
  const uint64_t depth = bits_of(token.depth);
  const bool is_cut = depth > state.cut_depth || (depth == state.cut_depth && i > state.cut_token);
  return token.has_share() && depth <= state.last_depth && !is_cut &&
         token.power() >= setting(draw, kMinP);
}

}  // namespace

/// The largest logit of each block's tokens; and zeros for what follows.
extern "C" __global__ void __launch_bounds__(kDrawThreads) aotip_draw_likeliest(Draw draw) {
  __shared__ DrawMemory memory;
  let_next_begin();
  wait_for_inputs();
  DrawState& state = *draw.state;
  const uint32_t thread = blockIdx.x * kDrawThreads + threadIdx.x;
  for (uint32_t bin = thread; bin < kDrawBins; bin += gridDim.x * kDrawThreads) {
    state.shares[bin] = 0;
    state.counts[bin] = 0;
  }
  if (thread < 4) {
    state.arrived[thread] = 0;
    state.n_listed[thread % 2] = 0;
  }
  const Part part(draw, blockIdx.x);
  double most = of_bits(kMinusInfinity);  // NaN is larger than nothing
  for (uint32_t i = part.begin + threadIdx.x; i < part.end; i += kDrawThreads) {
    const double logit = draw.logits[i];
    most = logit > most ? logit : most;
  }
  most = largest(most, memory);
  if (threadIdx.x == 0) {
    state.likeliest[blockIdx.x] = most;
  }
}

/// Sorts the tokens into intervals, and finds those where limits end.
extern "C" __global__ void __launch_bounds__(kDrawThreads) aotip_draw_bins(Draw draw) {
  __shared__ DrawMemory memory;
  __shared__ uint64_t shares[kDrawBins];
  __shared__ uint32_t counts[kDrawBins];
  let_next_begin();
  for (uint32_t bin = threadIdx.x; bin < kDrawBins; bin += kDrawThreads) {
    shares[bin] = 0;
    counts[bin] = 0;
  }
  wait_for_inputs();
  DrawState& state = *draw.state;
  const double most = largest(state.likeliest[threadIdx.x < gridDim.x ? threadIdx.x : 0], memory);
  const double temperature = setting(draw, kTemperature);
  const Part part(draw, blockIdx.x);
  for (uint32_t i = part.begin + threadIdx.x; i < part.end; i += kDrawThreads) {
    const Token token(draw, i, most, temperature);
    if (token.has_share()) {
      atomicAdd(reinterpret_cast<Atomic*>(&shares[token.bin()]),
                static_cast<Atomic>(token.share()));
      atomicAdd(&counts[token.bin()], 1u);
    }
  }
  __syncthreads();
  for (uint32_t bin = threadIdx.x; bin < kDrawBins; bin += kDrawThreads) {
    if (counts[bin] != 0) {
      atomicAdd(reinterpret_cast<Atomic*>(&state.shares[bin]), static_cast<Atomic>(shares[bin]));
      atomicAdd(&state.counts[bin], counts[bin]);
    }
  }
  if (!is_last_block(&state.arrived[0], memory)) {
    return;
  }
  const double top_k = setting(draw, kTopK);
  int32_t last_bin = -1;
  if (top_k > 0 && top_k < draw.n_tokens) {
    const auto rank = static_cast<uint64_t>(top_k > 1 ? top_k : 1);
    uint64_t before = 0;
    last_bin = find_bin(
        kDrawBins, [&](uint32_t i) { return uint64_t{state.counts[i]}; }, rank, memory, &before);
    if (threadIdx.x == 0) {
      state.last_rank = static_cast<uint32_t>(rank - before);
    }
  }
  const uint32_t end = last_bin < 0 ? kDrawBins : static_cast<uint32_t>(last_bin);
  const uint64_t own = own_units(end, [&](uint32_t i) { return state.shares[i]; });
  uint64_t above = 0;
  (void)shares_before(own, memory, &above);
  if (threadIdx.x == 0) {
    state.most = most;
    state.last_bin = last_bin;
    state.above_last = above;
    state.last_depth = kNoEnd;
  }
  if (last_bin < 0) {
    find_cut(draw, above, kDrawBins, memory);
  }
}

/// Finds the token where top-k ends, in its interval.
extern "C" __global__ void __launch_bounds__(kDrawThreads) aotip_draw_top_k(Draw draw) {
  __shared__ DrawMemory memory;
  let_next_begin();
  wait_for_inputs();
  DrawState& state = *draw.state;
  if (!list_tokens(draw, state.last_bin, kNoEnd, &state.n_listed[0], &state.arrived[1], memory)) {
    return;
  }
  const uint32_t count = state.n_listed[0];
  const auto listed = [&](uint32_t i) { return token_at(draw, draw.listed[i]); };
  const End end = find_end(
      count, [&](uint32_t i) { return bits_of(listed(i).depth); },
      [](uint32_t) { return uint64_t{1}; }, state.last_rank, memory);
  uint64_t own = 0;
  for (uint32_t i = threadIdx.x; i < count; i += kDrawThreads) {
    const Token token = listed(i);
    own += bits_of(token.depth) <= end.key ? token.share() : 0;
  }
  uint64_t total = 0;
  (void)shares_before(own, memory, &total);
  if (threadIdx.x == 0) {
    state.last_depth = end.key;
  }
  find_cut(draw, state.above_last + total, static_cast<uint32_t>(state.last_bin), memory);
}

/// Finds the token where top-p ends, in its interval.
extern "C" __global__ void __launch_bounds__(kDrawThreads) aotip_draw_top_p(Draw draw) {
  __shared__ DrawMemory memory;
  let_next_begin();
  wait_for_inputs();
  DrawState& state = *draw.state;
  if (!list_tokens(draw, state.cut_bin, state.last_depth, &state.n_listed[1], &state.arrived[2],
                   memory)) {
    return;
  }
  const uint32_t count = state.n_listed[1];
  const uint64_t target = state.cut_share;
  const auto listed = [&](uint32_t i) { return token_at(draw, draw.listed[i]); };
  const End end = find_end(
      count, [&](uint32_t i) { return bits_of(listed(i).depth); },
      [&](uint32_t i) { return listed(i).share(); }, target, memory);
  // Of tokens that are as likely the first ones are taken.
  Token last = token_at(draw, 0);
  last.depth = of_bits(end.key);
  const uint64_t share = last.share();
  const uint64_t wanted = share > 0 ? (target - end.before + share - 1) / share : kNoEnd;
  const End token = find_end(
      count,
      [&](uint32_t i) {
        return bits_of(listed(i).depth) == end.key ? uint64_t{draw.listed[i]} : kNoEnd;
      },
      [](uint32_t) { return uint64_t{1}; }, wanted, memory);
  if (threadIdx.x == 0) {
    state.cut_depth = end.key;
    state.cut_token = static_cast<uint32_t>(token.key);
  }
}

/// Draws one of the tokens that are left, by their order.
extern "C" __global__ void __launch_bounds__(kDrawThreads) aotip_draw_number(Draw draw) {
  __shared__ DrawMemory memory;
  let_next_begin();
  wait_for_inputs();
  DrawState& state = *draw.state;
  const auto share_of = [&](uint32_t i) -> uint64_t {
    const Token token = token_at(draw, i);
    return is_left(draw, i, token) ? token.share() : 0;
  };
  const Part part(draw, blockIdx.x);
  uint64_t own = 0;
  for (uint32_t i = part.begin + threadIdx.x; i < part.end; i += kDrawThreads) {
    own += share_of(i);
  }
  uint64_t total = 0;
  (void)shares_before(own, memory, &total);
  if (threadIdx.x == 0) {
    state.block_shares[blockIdx.x] = total;
  }
  if (!is_last_block(&state.arrived[3], memory)) {
    return;
  }
  own = threadIdx.x < gridDim.x ? state.block_shares[threadIdx.x] : 0;
  uint64_t before = shares_before(own, memory, &total);
  const auto number = static_cast<uint64_t>(setting(draw, kNumber) * static_cast<double>(total));
  const uint64_t wanted = number < total || total == 0 ? number : total - 1;
  if (threadIdx.x == 0) {
    memory.place = gridDim.x;
    *draw.token = draw.n_tokens - 1;  // where there is nothing to draw from
  }
  __syncthreads();
  if (before <= wanted && wanted < before + own) {
    memory.place = threadIdx.x;
    memory.before = before;
  }
  __syncthreads();
  if (memory.place == gridDim.x) {
    return;
  }
  const Part chosen(draw, memory.place);
  const uint64_t left = wanted - memory.before;
  const uint32_t each = (draw.per_block + kDrawThreads - 1) / kDrawThreads;
  const uint32_t begin = chosen.begin + threadIdx.x * each;
  const uint32_t end = begin + each < chosen.end ? begin + each : chosen.end;
  own = 0;
  for (uint32_t i = begin; i < end; ++i) {
    own += share_of(i);
  }
  before = shares_before(own, memory, &total);
  if (before <= left && left < before + own) {
    uint32_t i = begin;
    while (before + share_of(i) <= left) {
      before += share_of(i);
      ++i;
    }
    *draw.token = i;
  }
}
