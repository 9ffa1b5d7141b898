// Products of one to a few rows with the transpose of a weight of 4 or 8 bits, bound by reading the
// weight once: out [ROWS, n] = x [ROWS, k] @ weight [n, k]^T + bias, accumulated in float.
//
// Of 4 bits a byte has a code of the first half of a group in its lower bits, and one of the second
// half in its upper bits.
//
// Defines:
//   T       element type of x, bias and out: float, half or bfloat
//   S       element type of scales and zeros
//   ROWS    rows of x, 1 to 4
//   CODES   bits of a weight, 4 or 8
//
// A simdgroup computes COLUMNS columns, its lanes walk along k, four bytes at a time. Groups of
// 32 * SIMDGROUPS threads; the grid of groups is [ceil(n / (COLUMNS * SIMDGROUPS)), 1, 1].
//
// Buffers: 0 x, 1 codes, 2 bias (any buffer where it is not read), 3 out, 4 arguments, 5 scales,
// 6 zeros (any buffer where they are not read).

#define SIMDGROUPS 8
#define COLUMNS 4

#if CODES == 4
#define HALVES 2
#else
#define HALVES 1
#endif

static float4 four_of(device const T* x, long place) {
  return float4(*(device const vec<T, 4>*)(x + place));
}

[[max_total_threads_per_threadgroup(32 * SIMDGROUPS)]]
kernel void small_linear_rows(device const T* x [[buffer(0)]],
                              device const uchar* codes [[buffer(1)]],
                              device const T* bias [[buffer(2)]],
                              device T* out [[buffer(3)]],
                              constant SmallLinearArgs& p [[buffer(4)]],
                              device const S* scale [[buffer(5)]],
                              device const S* zero [[buffer(6)]],
                              uint3 group [[threadgroup_position_in_grid]],
                              uint simdgroup [[simdgroup_index_in_threadgroup]],
                              uint lane [[thread_index_in_simdgroup]]) {
  const long first = (long(group.x) * SIMDGROUPS + simdgroup) * COLUMNS;
  const int size = int(p.group) / HALVES;  // bytes of a group
  const int row_nbytes = int(p.k) / HALVES;
  const int groups = row_nbytes / size;
  // Columns past the end read the last one again and are not stored.
  long columns[COLUMNS];
  float sums[ROWS][COLUMNS];
  for (int j = 0; j < COLUMNS; ++j) {
    columns[j] = min(first + j, long(p.n) - 1);
    for (int i = 0; i < ROWS; ++i) {
      sums[i][j] = 0.0f;
    }
  }
  for (int at = int(4 * lane); at < row_nbytes; at += 4 * 32) {
    const int number = at / size;
    const int place = number * int(p.group) + at - number * size;
    float4 factors[ROWS][HALVES];
    float totals[ROWS];
    for (int i = 0; i < ROWS; ++i) {
      totals[i] = 0.0f;
      for (int h = 0; h < HALVES; ++h) {
        factors[i][h] = four_of(x, long(i) * p.k + place + h * size);
        totals[i] += dot(factors[i][h], float4(1.0f));
      }
    }
    for (int j = 0; j < COLUMNS; ++j) {
      const long of_group = columns[j] * groups + number;
      const float by = float(scale[of_group]);
      const float offset = small_linear_offset(p, by, zero, of_group);
      device const uchar* from = codes + columns[j] * row_nbytes + at;
#if CODES == 4
      const uchar4 both = *(device const uchar4*)from;
      const float4 values[HALVES] = {float4(both & uchar4(15)), float4(both >> uchar4(4))};
#else
      const float4 values[HALVES] = {float4(*(device const char4*)from)};
#endif
      for (int i = 0; i < ROWS; ++i) {
        float sum = 0.0f;
        for (int h = 0; h < HALVES; ++h) {
          sum += dot(factors[i][h], values[h]);
        }
        sums[i][j] += sum * by + totals[i] * offset;
      }
    }
  }
  for (int j = 0; j < COLUMNS; ++j) {
    for (int i = 0; i < ROWS; ++i) {
      float sum = simd_sum(sums[i][j]);
      if (lane == 0 && first + j < p.n) {
        sum += p.has_bias != 0 ? float(bias[first + j]) : 0.0f;
        out[i * p.n + first + j] = T(sum);
      }
    }
  }
}
