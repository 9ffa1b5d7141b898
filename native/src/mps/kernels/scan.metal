// Running sums and products of lines.
//
// Defines: FROM and TO (element types), ACC (float, or ulong, which wraps around as integers do),
// PRODUCT (0: sums), THREADS (a power of two).
// Buffers: 0 source, 1 result, 2 lines of (result, source). A group of THREADS threads for each
// line; the grid of groups is [lines].

#define ITEMS 4

static inline ACC combined(ACC a, ACC b) {
#if PRODUCT
  return a * b;
#else
  return a + b;
#endif
}

[[max_total_threads_per_threadgroup(THREADS)]]
kernel void scan(device const FROM* from [[buffer(0)]],
                 device TO* to [[buffer(1)]],
                 constant LinesArgs& p [[buffer(2)]],
                 uint3 group [[threadgroup_position_in_grid]],
                 uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup ACC totals[THREADS];
  to += line_start(p, group.x, 0);
  from += line_start(p, group.x, 1);
  ACC carry = ACC(PRODUCT);
  for (long begin = 0; begin < p.length; begin += ITEMS * THREADS) {
    // Each thread scans a few neighbours, then all threads scan what these come to.
    ACC items[ITEMS];
    ACC total = ACC(PRODUCT);
    const long first = begin + ITEMS * long(thread_index);
    for (int i = 0; i < ITEMS; ++i) {
      if (first + i < p.length) {
        total = combined(total, ACC(TO(from[(first + i) * p.steps[1]])));
      }
      items[i] = total;
    }
    totals[thread_index] = total;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint reach = 1; reach < THREADS; reach *= 2) {
      const ACC other = thread_index >= reach ? totals[thread_index - reach] : ACC(PRODUCT);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      totals[thread_index] = combined(other, totals[thread_index]);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    const ACC before =
        thread_index > 0 ? combined(carry, totals[thread_index - 1]) : carry;
    for (int i = 0; i < ITEMS; ++i) {
      if (first + i < p.length) {
        to[(first + i) * p.steps[0]] = TO(combined(before, items[i]));
      }
    }
    carry = combined(carry, totals[THREADS - 1]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}
