// Products of integer matrices, which wrap around: c = alpha * (a @ b) + beta * s.
//
// Define T: char, uchar, short, int or long. One thread per element of c; the grid of threads is
// [n, m, batch].
// Buffers: 0 a, 1 b, 2 s (any buffer where p.add is 0), 3 c, 4 arguments.

kernel void gemm_integer(device const T* a [[buffer(0)]],
                         device const T* b [[buffer(1)]],
                         device const T* s [[buffer(2)]],
                         device T* c [[buffer(3)]],
                         constant MatmulArgs& p [[buffer(4)]],
                         uint3 at [[thread_position_in_grid]]) {
  const long j = at.x;
  const long i = at.y;
  const long batch = at.z;
  ulong sum = 0;
  for (long k = 0; k < p.k; ++k) {
    sum += ulong(long(a[batch * p.a_batch + i * p.a_row + k * p.a_col])) *
           ulong(long(b[batch * p.b_batch + k * p.b_row + j * p.b_col]));
  }
  sum *= ulong(p.int_alpha);
  if (p.add != 0) {
    sum += ulong(p.int_beta) * ulong(long(s[batch * p.s_batch + i * p.s_row + j * p.s_col]));
  }
  c[batch * p.c_batch + i * p.c_row + j * p.c_col] = T(sum);
}
