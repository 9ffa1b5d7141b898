// The first elements of long lines without sorting them, a block for each line: the key of the last
// one is found from its highest bits on, then the elements that come before it are gathered, and of
// those that are equal to it the first ones. In the order of places, or sorted afterwards. Where
// there are few lines, each part of a line has a block, and what they find is a line again.

#include "cuda/kernels/sort_keys.cuh"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// Elements that a thread loads before it uses the first.
constexpr uint32_t kSelectBatch = 8;

constexpr uint32_t kMaxWarps = 32;

/// Counts of each digit in a large block, so that lanes which count the same one do not wait.
constexpr uint32_t kCopies = 4;

__device__ uint32_t bin_copies() {
  return blockDim.x == kMaxWarps * kWarp ? kCopies : 1;
}

/// The shared memory of a block, but for counts and what is sorted.
struct SelectState {
  uint32_t warp_sums[kMaxWarps];
  uint32_t gathered[2][kMaxWarps];
  uint32_t digit;   ///< of the last element that is taken
  uint32_t before;  ///< elements with smaller digits
  uint32_t equal;   ///< elements with this digit
};

/// A line, or one part of it.
template <typename Key>
struct SelectLine : SortLine<Key> {
  __device__ SelectLine(const SortTensors& tensors, const Lines& lines, const SelectParts& parts,
                        int64_t at)
      : SortLine<Key>(tensors, lines, at / parts.count) {
    const int64_t line = at / parts.count;
    const int64_t part = at - line * parts.count;
    first = part * lines.length / parts.count;
    length = (part + 1) * lines.length / parts.count - first;
    names = parts.names != nullptr ? parts.names + line * lines.length : nullptr;
    this->src += first * this->src_step;
    this->values += part * tensors.count * this->values_step;
    this->places += part * tensors.count * this->places_step;
  }

  /// Writes an element as the `i`-th, with its place in the whole line or the name of that.
  __device__ void store_one(int64_t i, uint32_t place) const {
    with_element<Key>(this->nbytes, [&](auto element) {
      *reinterpret_cast<decltype(element)*>(this->values + i * this->values_step) =
          *reinterpret_cast<const decltype(element)*>(this->src + place * this->src_step);
    });
    this->places[i * this->places_step] = names != nullptr ? names[place] : first + place;
  }

  const int64_t* names;
  int64_t first;
  int64_t length;
};

/// Digits are counted before there is anything to sort.
template <typename Key>
union SelectMemory {
  uint32_t bins[kCopies][kSelectBins];
  Pair<Key> pairs[kSelectOrdered];
};

/// What is known of the last key that is taken: some of its highest bits, and how many elements
/// with the same bits are taken.
template <typename Key>
struct Threshold {
  Key bits;
  Key mask;
  uint32_t taken;
};

/// Counts the digits at `shift` of all keys that agree with the threshold.
template <typename Key>
__device__ void count_keys(const SelectLine<Key>& line, const SortOrder& order,
                           const Threshold<Key>& threshold, uint32_t shift, uint32_t digits,
                           uint32_t (&bins)[kCopies][kSelectBins]) {
  uint32_t* const own = bins[lane_index() % bin_copies()];
  const int64_t step = int64_t{blockDim.x} * kSelectBatch;
  for (int64_t base = threadIdx.x; base < line.length; base += step) {
    const auto place = [&](uint32_t j) { return base + j * blockDim.x; };
    Key keys[kSelectBatch];
    line.load_keys(place, line.length, order, keys);
#pragma unroll
    for (uint32_t j = 0; j < kSelectBatch; ++j) {
      if (place(j) < line.length && (keys[j] & threshold.mask) == threshold.bits) {
        atomicAdd(&own[static_cast<uint32_t>(keys[j] >> shift) % digits], 1u);
      }
    }
  }
}

/// Finds the digit of the `taken`-th element that was counted; the first copies get the sums.
__device__ void find_digit(uint32_t (&bins)[kCopies][kSelectBins], SelectState& state,
                           uint32_t taken) {
  const uint32_t own = kSelectBins / blockDim.x;
  const uint32_t first = threadIdx.x * own;
  uint32_t sum = 0;
  for (uint32_t bin = first; bin < first + own; ++bin) {
    for (uint32_t copy = 1; copy < bin_copies(); ++copy) {
      bins[0][bin] += bins[copy][bin];
    }
    sum += bins[0][bin];
  }
  uint32_t before = sum_before(sum, state.warp_sums);
  if (before < taken && taken <= before + sum) {
    uint32_t bin = first;
    while (before + bins[0][bin] < taken) {
      before += bins[0][bin];
      ++bin;
    }
    state.digit = bin;
    state.before = before;
    state.equal = bins[0][bin];
  }
  __syncthreads();
}

template <typename Key>
__device__ Threshold<Key> find_threshold(const SelectLine<Key>& line, const SortOrder& order,
                                         int64_t count, uint32_t (&bins)[kCopies][kSelectBins],
                                         SelectState& state) {
  Threshold<Key> threshold{0, 0, static_cast<uint32_t>(count)};
  uint32_t shift = 8 * line.nbytes;
  while (shift > 0) {
    const uint32_t bits = shift < kSelectBits ? shift : kSelectBits;
    const uint32_t digits = uint32_t{1} << bits;
    shift -= bits;
    for (uint32_t bin = threadIdx.x; bin < bin_copies() * kSelectBins; bin += blockDim.x) {
      bins[bin / kSelectBins][bin % kSelectBins] = 0;
    }
    __syncthreads();
    count_keys(line, order, threshold, shift, digits, bins);
    __syncthreads();
    find_digit(bins, state, threshold.taken);
    threshold.bits |= static_cast<Key>(state.digit) << shift;
    threshold.mask |= static_cast<Key>(digits - 1) << shift;
    threshold.taken -= state.before;
    if (threshold.taken == state.equal) {
      break;
    }
  }
  return threshold;
}

/// Calls `take(i, key, place)` for each element that is taken, with a number `i` of its own. Both
/// those before the threshold and those at it are numbered in the order of their places.
template <typename Key, typename Take>
__device__ void gather(const SelectLine<Key>& line, const SortOrder& order, int64_t count,
                       const Threshold<Key>& threshold, SelectState& state, const Take& take) {
  const uint32_t first_equal = static_cast<uint32_t>(count) - threshold.taken;
  const uint32_t warps = blockDim.x / kWarp;
  const int64_t step = int64_t{blockDim.x} * kSelectBatch;
  uint32_t less = 0;  // seen so far
  uint32_t equal = 0;
  uint32_t turn = 0;
  for (int64_t base = 0; base < line.length; base += step, turn ^= 1) {
    const int64_t first = base + warp_index() * kSelectBatch * kWarp + lane_index();
    const auto place = [&](uint32_t j) { return first + j * kWarp; };
    Key keys[kSelectBatch];
    line.load_keys(place, line.length, order, keys);
    uint32_t less_lanes[kSelectBatch];
    uint32_t equal_lanes[kSelectBatch];
    uint32_t found = 0;  // less in the lower half, equal in the upper one
#pragma unroll
    for (uint32_t j = 0; j < kSelectBatch; ++j) {
      const bool is_in = place(j) < line.length;
      const Key bits = keys[j] & threshold.mask;
      less_lanes[j] = __ballot_sync(kAllLanes, is_in && bits < threshold.bits);
      equal_lanes[j] = __ballot_sync(kAllLanes, is_in && bits == threshold.bits);
      found += __popc(less_lanes[j]) + (static_cast<uint32_t>(__popc(equal_lanes[j])) << 16);
    }
    state.gathered[turn][warp_index()] = found;
    __syncthreads();
    const uint32_t of_lane = lane_index() < warps ? state.gathered[turn][lane_index()] : 0;
    const uint32_t before = __reduce_add_sync(kAllLanes, lane_index() < warp_index() ? of_lane : 0);
    const uint32_t all = __reduce_add_sync(kAllLanes, of_lane);
    uint32_t next_less = less + (before & 0xffff);
    uint32_t next_equal = equal + (before >> 16);
#pragma unroll
    for (uint32_t j = 0; j < kSelectBatch; ++j) {
      const bool is_less = (less_lanes[j] >> lane_index() & 1) != 0;
      const bool is_equal = (equal_lanes[j] >> lane_index() & 1) != 0;
      const uint32_t number = is_less ? next_less + __popc(less_lanes[j] & lanes_below())
                                      : next_equal + __popc(equal_lanes[j] & lanes_below());
      if (is_less || (is_equal && number < threshold.taken)) {
        take(is_less ? number : first_equal + number, keys[j], static_cast<uint32_t>(place(j)));
      }
      next_less += __popc(less_lanes[j]);
      next_equal += __popc(equal_lanes[j]);
    }
    less += all & 0xffff;
    equal += all >> 16;
  }
}

/// Sorts `padded` pairs, a power of two of at least two.
template <typename Key>
__device__ void sort_pairs(Pair<Key>* pairs, uint32_t padded) {
  for (uint32_t run = 2; run <= padded; run *= 2) {
    for (uint32_t reach = run / 2; reach > 0; reach /= 2) {
      for (uint32_t i = threadIdx.x; i < padded / 2; i += blockDim.x) {
        const uint32_t a = 2 * i - (i & (reach - 1));
        exchange(pairs[a], pairs[a + reach], run == padded || (a & run) == 0);
      }
      // Up to a reach of kWarp, a warp stays among the pairs that it had before.
      const uint32_t next = reach > 1 ? reach / 2 : run;
      if (reach > kWarp || next > kWarp) {
        __syncthreads();
      } else {
        __syncwarp();
      }
    }
  }
}

template <typename Key>
__device__ void select(const SortTensors& tensors, uint32_t padded, const Lines& lines,
                       const SelectParts& parts) {
  __shared__ SelectState state;
  __shared__ SelectMemory<Key> memory;
  Pair<Key>* const pairs = memory.pairs;
  for (int64_t at = blockIdx.x; at < lines.count * parts.count; at += gridDim.x) {
    const SelectLine<Key> line(tensors, lines, parts, at);
    const Threshold<Key> threshold =
        find_threshold(line, tensors.order, tensors.count, memory.bins, state);
    for (uint32_t i = threadIdx.x; i < padded; i += blockDim.x) {
      set_pair(kLastKey<Key>, ~uint32_t{0}, &pairs[i]);
    }
    __syncthreads();
    gather(line, tensors.order, tensors.count, threshold, state,
           [&](uint32_t i, Key key, uint32_t place) {
             if (padded == 0) {
               line.store_one(i, place);
             } else {
               set_pair(key, place, &pairs[i]);
             }
           });
    __syncthreads();
    if (padded != 0) {
      sort_pairs(pairs, padded);
      for (uint32_t i = threadIdx.x; i < tensors.count; i += blockDim.x) {
        line.store_one(i, place_of(pairs[i]));
      }
      __syncthreads();
    }
  }
}

}  // namespace

/// `aotip_select_<bytes of a key>`: `padded`, a power of two of at least two, is the least that the
/// elements fit in which are put in order, or 0 where they stay in the order of their places.
#define AOTIP_SELECT(nbytes, type)                                                               \
  extern "C" __global__ void __launch_bounds__(1024)                                             \
      aotip_select_##nbytes(const SortTensors tensors, const uint32_t padded, const Lines lines, \
                            const SelectParts parts) {                                           \
    select<type>(tensors, padded, lines, parts);                                                 \
  }

AOTIP_SELECT(4, uint32_t)
AOTIP_SELECT(8, uint64_t)
