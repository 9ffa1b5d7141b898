// Elements moved from one layout to another, and converted where the types differ. As on the CPU,
// reals become integers through long, and whatever is not zero becomes true.
//
// Define TO and FROM, and TO_BOOL, TO_INTEGER or TO_REAL for a conversion to those. One thread per element.
// Buffers: 0 to, 1 from, 2 arguments.

#if defined(TO_BOOL)
#define CONVERT(x) TO((x) != FROM(0))
#elif defined(TO_INTEGER)
#define CONVERT(x) TO(long(x))
#elif defined(TO_REAL)
#define CONVERT(x) TO(float(x))
#else
#define CONVERT(x) (x)
#endif

kernel void copy_elements(device TO* to [[buffer(0)]],
                          device const FROM* from [[buffer(1)]],
                          constant CopyArgs& p [[buffer(2)]],
                          uint at [[thread_position_in_grid]]) {
  uint rest = at;
  for (int d = 0; d < p.ndim; ++d) {
    const long i = rest % p.sizes[d];
    rest /= p.sizes[d];
    to += i * p.to[d];
    from += i * p.from[d];
  }
  *to = CONVERT(*from);
}
