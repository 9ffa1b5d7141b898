// Products of one to a few rows, bound by reading the other matrix once:
// c [ROWS, n] = alpha * (a [ROWS, k] @ b [k, n]) + beta * s, accumulated in float.
//
// Defines:
//   T       element type: float, half or bfloat
//   ROWS    rows of a and c, 1 to 4
//   VEC     4 where the direction that is read along has stride 1 and every start along it is
//           aligned to four elements, in b and, for gemm_rows_k, in a; otherwise 1
//
// gemm_rows_k: neighbours along k are close in memory (the usual transposed weights). A simdgroup
//   computes COLUMNS columns, its lanes walk along k. Groups of 32 * SIMDGROUPS threads; the grid of
//   groups is [ceil(n / (COLUMNS * SIMDGROUPS)), 1, batch].
// gemm_rows_n: neighbours along n are. A lane computes VEC columns, the simdgroups of a group share
//   k. The grid of groups is [ceil(n / (32 * VEC)), 1, batch].
//
// Buffers: 0 a, 1 b, 2 s (any buffer where p.add is 0), 3 c, 4 arguments.

#define SIMDGROUPS 8
#define COLUMNS 4

static void store(device T* c, device const T* s, constant MatmulArgs& p, int i, long j,
                  float value) {
  if (j < p.n) {
    value *= p.alpha;
    if (p.add != 0) {
      value += p.beta * float(s[i * p.s_row + j * p.s_col]);
    }
    c[i * p.c_row + j * p.c_col] = T(value);
  }
}

[[max_total_threads_per_threadgroup(32 * SIMDGROUPS)]]
kernel void gemm_rows_k(device const T* a [[buffer(0)]],
                        device const T* b [[buffer(1)]],
                        device const T* s [[buffer(2)]],
                        device T* c [[buffer(3)]],
                        constant MatmulArgs& p [[buffer(4)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
  a += long(group.z) * p.a_batch;
  b += long(group.z) * p.b_batch;
  s += long(group.z) * p.s_batch;
  c += long(group.z) * p.c_batch;
  const long first = (long(group.x) * SIMDGROUPS + simdgroup) * COLUMNS;
  // Columns past the end read the last one again and are not stored.
  long columns[COLUMNS];
  float sums[ROWS][COLUMNS];
  for (int j = 0; j < COLUMNS; ++j) {
    columns[j] = min(first + j, long(p.n) - 1) * p.b_col;
    for (int i = 0; i < ROWS; ++i) {
      sums[i][j] = 0.0f;
    }
  }
  long k = 0;
#if VEC == 4
  for (k = 4 * lane; k + 4 <= p.k; k += 4 * 32) {
    float4 factors[ROWS];
    for (int i = 0; i < ROWS; ++i) {
      factors[i] = float4(*(device const vec<T, 4>*)(a + i * p.a_row + k));
    }
    for (int j = 0; j < COLUMNS; ++j) {
      const float4 values = float4(*(device const vec<T, 4>*)(b + columns[j] + k));
      for (int i = 0; i < ROWS; ++i) {
        sums[i][j] += dot(factors[i], values);
      }
    }
  }
  k = p.k - p.k % 4;
#endif
  for (k += lane; k < p.k; k += 32) {
    for (int j = 0; j < COLUMNS; ++j) {
      const float value = float(b[columns[j] + k * p.b_row]);
      for (int i = 0; i < ROWS; ++i) {
        sums[i][j] += float(a[i * p.a_row + k * p.a_col]) * value;
      }
    }
  }
  for (int j = 0; j < COLUMNS; ++j) {
    for (int i = 0; i < ROWS; ++i) {
      const float sum = simd_sum(sums[i][j]);
      if (lane == 0) {
        store(c, s, p, i, first + j, sum);
      }
    }
  }
}

[[max_total_threads_per_threadgroup(32 * SIMDGROUPS)]]
kernel void gemm_rows_n(device const T* a [[buffer(0)]],
                        device const T* b [[buffer(1)]],
                        device const T* s [[buffer(2)]],
                        device T* c [[buffer(3)]],
                        constant MatmulArgs& p [[buffer(4)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float partial[SIMDGROUPS][32 * VEC];
  a += long(group.z) * p.a_batch;
  b += long(group.z) * p.b_batch;
  s += long(group.z) * p.s_batch;
  c += long(group.z) * p.c_batch;
  const long first = long(group.x) * (32 * VEC);
  const long column = first + VEC * lane;
  float sums[ROWS][VEC];
  for (int i = 0; i < ROWS; ++i) {
    for (int v = 0; v < VEC; ++v) {
      sums[i][v] = 0.0f;
    }
  }
  for (long k = simdgroup; k < p.k; k += SIMDGROUPS) {
    float values[VEC];
#if VEC == 4
    if (column + 4 <= p.n) {
      const float4 four = float4(*(device const vec<T, 4>*)(b + k * p.b_row + column));
      for (int v = 0; v < 4; ++v) {
        values[v] = four[v];
      }
    } else
#endif
    {
      for (int v = 0; v < VEC; ++v) {
        values[v] = column + v < p.n ? float(b[k * p.b_row + (column + v) * p.b_col]) : 0.0f;
      }
    }
    for (int i = 0; i < ROWS; ++i) {
      const float factor = float(a[i * p.a_row + k * p.a_col]);
      for (int v = 0; v < VEC; ++v) {
        sums[i][v] += factor * values[v];
      }
    }
  }
  for (int i = 0; i < ROWS; ++i) {
    for (int v = 0; v < VEC; ++v) {
      partial[simdgroup][VEC * lane + v] = sums[i][v];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int e = int(32 * simdgroup + lane); e < 32 * VEC; e += 32 * SIMDGROUPS) {
      float sum = 0.0f;
      for (int g = 0; g < SIMDGROUPS; ++g) {
        sum += partial[g][e];
      }
      store(c, s, p, i, first + e, sum);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}
