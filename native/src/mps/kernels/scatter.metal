// scatter: elements written, or combined, where an index says. Several threads share a line of the
// index: each reads all of it and takes care of the places that are its own. So elements that meet
// at a place come there in the order of the line (the last one written stays), without atomics,
// whatever their type.
//
// Defines:
//   T        element type
//   REAL     1 where T is a float type; integers wrap around
//   COMBINE  0 write, 1 sum, 2 product, 3 maximum, 4 minimum; a NaN wins
//   SRC      0: p.value or p.int_value; 1: elements of src; 2: those at the offsets `sources`
//
// Numbers outside of the line are skipped and told. The grid of threads is [owners, lines].
// Buffers: 0 result, 1 index, 2 src, 3 sources, 4 arguments, 30 where a number outside is told; any
// buffer where one is not read.

static T combined(T a, T b) {
#if COMBINE == 0
  return b;
#elif COMBINE == 3
  return a != a || a > b ? a : b;
#elif COMBINE == 4
  return a != a || a < b ? a : b;
#elif REAL && COMBINE == 1
  return T(float(a) + float(b));
#elif REAL
  return T(float(a) * float(b));
#elif COMBINE == 1
  return T(ulong(a) + ulong(b));
#else
  return T(ulong(a) * ulong(b));
#endif
}

/// Who takes care of a place: spread out, as places may all be multiples of a stride.
static uint owner_of(long place, int owners) {
  return uint((ulong(place) * 0x9e3779b97f4a7c15ul) >> 40) % uint(owners);
}

kernel void scatter(device T* out [[buffer(0)]],
                    device const long* index [[buffer(1)]],
                    device const T* src [[buffer(2)]],
                    device const long* sources [[buffer(3)]],
                    constant ScatterArgs& p [[buffer(4)]],
                    device atomic_int* fault [[buffer(30)]],
                    uint3 at [[thread_position_in_grid]]) {
  long line = at.y;
  for (int d = 0; d < p.ndim; ++d) {
    const long i = line % p.sizes[d];
    line /= p.sizes[d];
    out += i * p.out_start[d];
    index += i * p.index_start[d];
    src += i * p.src_start[d];
  }
  for (long i = 0; i < p.length; ++i) {
    const long place = index[i * p.index_step];
    if (place < 0 || place >= p.out_length) {
      atomic_store_explicit(fault, 1, memory_order_relaxed);
      continue;
    }
    if (owner_of(place, p.owners) != at.x) {
      continue;
    }
#if SRC == 0 && REAL
    const T value = T(p.value);
#elif SRC == 0
    const T value = T(p.int_value);
#elif SRC == 1
    const T value = src[i * p.src_step];
#else
    const T value = src[sources[i]];
#endif
    out[place * p.out_step] = combined(out[place * p.out_step], value);
  }
}

/// counts = first. One thread per element. Buffers: 0 counts, 1 first.
kernel void scatter_begin_counts(device int* counts [[buffer(0)]],
                                 constant int& first [[buffer(1)]],
                                 uint3 at [[thread_position_in_grid]]) {
  counts[at.x] = first;
}

/// out /= counts, rounded down for integers, for the mean. The grid of threads is [elements]; the
/// loops are over all dims of the result, `counts` is row-major in their order.
/// Buffers: 0 result, 1 counts, 2 arguments.
kernel void scatter_divide(device T* out [[buffer(0)]],
                           device const int* counts [[buffer(1)]],
                           constant ScatterArgs& p [[buffer(2)]],
                           uint3 at [[thread_position_in_grid]]) {
  long element = at.x;
  for (int d = 0; d < p.ndim; ++d) {
    out += element % p.sizes[d] * p.out_start[d];
    element /= p.sizes[d];
  }
  const int count = max(counts[at.x], 1);
#if REAL
  *out = T(float(*out) / float(count));
#else
  const long value = long(*out);
  *out = T(value / count - (value % count < 0 ? 1 : 0));
#endif
}
