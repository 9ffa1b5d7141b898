// The elements of lines in order, with their places. Pairs of a key, whose bits are in the order of
// the elements, and a place are all different, so a bitonic network sorts them stably. Lines are
// padded to a power of two with pairs that come last. Short lines are sorted by one block each;
// long ones by one launch per step that reaches further than a block's own memory.

#include "cuda/kernels/element.cuh"
#include "cuda/kernels/lines.cuh"

using namespace aoti_plugins;
using namespace aoti_plugins::cuda;

namespace {

/// NaN is above everything, and the two zeros are equal.
__device__ uint64_t real_key(double value) {
  if (value != value) {
    return ~uint64_t{0};
  }
  value = value == 0.0 ? 0.0 : value;
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
}

__device__ uint64_t key_of(const Number& n, bool descending) {
  uint64_t key = static_cast<uint64_t>(n.integer);
  if (n.kind == Number::kInteger) {
    key ^= uint64_t{1} << 63;
  } else if (n.kind == Number::kReal) {
    key = real_key(n.real);
  }
  return descending ? ~key : key;
}

/// Reads the pair of element `i` of a line that begins at `from`.
__device__ void load_pair(const void* src, int32_t dtype, bool descending, const Lines& lines,
                          int64_t from, int64_t i, uint64_t* key, uint32_t* place) {
  *place = static_cast<uint32_t>(i);
  *key = i < lines.length ? key_of(load(src, from + i * lines.steps[2], dtype), descending)
                          : ~uint64_t{0};
}

/// Puts two pairs in order, the smaller first where `up`.
__device__ void exchange(uint64_t* keys, uint32_t* places, int64_t a, int64_t b, bool up) {
  const uint64_t key = keys[a];
  const uint32_t place = places[a];
  const bool greater = key > keys[b] || (key == keys[b] && place > places[b]);
  if (greater == up) {
    keys[a] = keys[b];
    places[a] = places[b];
    keys[b] = key;
    places[b] = place;
  }
}

/// The first of the `i`-th couple of elements that stand `reach` apart.
__device__ int64_t couple(int64_t i, int64_t reach) {
  return 2 * i - (i & (reach - 1));
}

/// All steps from `reach` down to 1 over `count` pairs in the block's own memory, which are those
/// from `begin` on of a padded line; runs of `run` pairs come out in order, up and down in turns.
__device__ void merge(uint64_t* keys, uint32_t* places, int64_t count, int64_t begin, int64_t run,
                      int64_t reach) {
  for (; reach > 0; reach /= 2) {
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count / 2; i += blockDim.x) {
      const int64_t a = couple(i, reach);
      exchange(keys, places, a, a + reach, ((begin + a) & run) == 0);
    }
  }
  __syncthreads();
}

__device__ void copy_item(void* dst, int64_t to, const void* src, int64_t from, int32_t itemsize) {
  switch (itemsize) {
    case 1:
      return put(dst, to, at<uint8_t>(src, from));
    case 2:
      return put(dst, to, at<uint16_t>(src, from));
    case 4:
      return put(dst, to, at<uint32_t>(src, from));
    default:
      return put(dst, to, at<uint64_t>(src, from));
  }
}

/// Writes the element that comes `i`-th in a line, and its place.
__device__ void store_pair(void* values, int64_t* out_places, const void* src, int32_t itemsize,
                           const Lines& lines, int64_t line, int64_t i, uint32_t place) {
  copy_item(values, line_start(lines, line, 0) + i * lines.steps[0], src,
            line_start(lines, line, 2) + place * lines.steps[2], itemsize);
  out_places[line_start(lines, line, 1) + i * lines.steps[1]] = place;
}

}  // namespace

/// Sorts lines that are padded to at most kSortShared, a block for each.
extern "C" __global__ void aotip_sort_lines(void* values, int64_t* out_places, const void* src,
                                            int32_t dtype, int32_t itemsize, int32_t descending,
                                            int64_t count, int64_t padded, const Lines lines) {
  __shared__ uint64_t keys[kSortShared];
  __shared__ uint32_t places[kSortShared];
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const int64_t from = line_start(lines, line, 2);
    for (int64_t i = threadIdx.x; i < padded; i += blockDim.x) {
      load_pair(src, dtype, descending != 0, lines, from, i, &keys[i], &places[i]);
    }
    for (int64_t run = 2; run <= padded; run *= 2) {
      merge(keys, places, padded, 0, run == padded ? 0 : run, run / 2);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      store_pair(values, out_places, src, itemsize, lines, line, i, places[i]);
    }
    __syncthreads();
  }
}

/// Writes the pairs of long lines.
extern "C" __global__ void aotip_sort_load(uint64_t* keys, uint32_t* places, const void* src,
                                           int32_t dtype, int32_t descending, int64_t padded,
                                           const Lines lines) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < lines.count * padded;
       at += step) {
    const int64_t line = at / padded;
    load_pair(src, dtype, descending != 0, lines, line_start(lines, line, 2), at - line * padded,
              &keys[at], &places[at]);
  }
}

/// All steps that reach less than kSortShared, for runs from `first_run` to `last_run`.
extern "C" __global__ void aotip_sort_merge(uint64_t* keys, uint32_t* places, int64_t total,
                                            int64_t padded, int64_t first_run, int64_t last_run) {
  __shared__ uint64_t own_keys[kSortShared];
  __shared__ uint32_t own_places[kSortShared];
  for (int64_t base = blockIdx.x * kSortShared; base < total; base += gridDim.x * kSortShared) {
    for (int64_t i = threadIdx.x; i < kSortShared; i += blockDim.x) {
      own_keys[i] = keys[base + i];
      own_places[i] = places[base + i];
    }
    for (int64_t run = first_run; run <= last_run; run *= 2) {
      const int64_t reach = run / 2 < kSortShared / 2 ? run / 2 : kSortShared / 2;
      merge(own_keys, own_places, kSortShared, base & (padded - 1), run == padded ? 0 : run, reach);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < kSortShared; i += blockDim.x) {
      keys[base + i] = own_keys[i];
      places[base + i] = own_places[i];
    }
    __syncthreads();
  }
}

/// One step that reaches further.
extern "C" __global__ void aotip_sort_step(uint64_t* keys, uint32_t* places, int64_t total,
                                           int64_t padded, int64_t run, int64_t reach) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total / 2; i += step) {
    const int64_t a = couple(i, reach);
    exchange(keys, places, a, a + reach, run == padded || (a & (padded - 1) & run) == 0);
  }
}

/// Writes the first `count` elements of each long line.
extern "C" __global__ void aotip_sort_store(void* values, int64_t* out_places, const void* src,
                                            int32_t itemsize, const uint32_t* places, int64_t count,
                                            int64_t padded, const Lines lines) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < lines.count * count;
       at += step) {
    const int64_t line = at / count;
    const int64_t i = at - line * count;
    store_pair(values, out_places, src, itemsize, lines, line, i, places[line * padded + i]);
  }
}
