// Products of tiles: c [m, n] = left [m, k] @ right [k, n] accumulated in float, a tile of c for
// each threadgroup, tiles of the operands through threadgroup memory.
//
// What the operands are is chosen by a define:
//   CONVOLUTION 0  matrices with any strides:
//                  c = alpha * (a @ b) + beta * s, the last only where p.add says so
//   CONVOLUTION 1  the weights of one group of channels, and the patches of the input that an
//                  output element sees; c = w @ patches + bias. A transposed convolution is the
//                  same with other patches (TRANSPOSED 1).
//   CODES 4 or 8   with CONVOLUTION 0: rows, and the transpose of a weight of so many bits, as
//                  small_linear_rows.metal has it; c = rows @ weight^T + bias
// Further defines:
//   T               element type: float, half or bfloat
//   INDEX           int, or long where an offset does not fit into it
//   A_K_FAST        1 where neighbours along k of the left operand are neighbours in memory
//   B_K_FAST        likewise for the right one
//   SIMDGROUP       1: products by simdgroup matrices of 8x8; 0: by single threads
//
// Buffers: 0 left, 1 right, 2 s or bias (any buffer where it is not read), 3 c, 4 arguments; of
// codes also 5 scales and 6 zeros (any buffer where they are not read). Groups of THREADS threads; the grid of groups is [ceil(n / TILE_N), ceil(m / TILE_M), batch],
// where the batch of a convolution is its groups of channels.

#if SIMDGROUP
#define TILE_M 64
#define TILE_N 64
#define TILE_K 16
#define THREADS 128
#else
#define TILE_M 32
#define TILE_N 32
#define TILE_K 16
#define THREADS 256
#endif

// Rows of a tile are padded, such that columns do not fall into one bank of memory.
#define A_STEP (TILE_K + 4)
#define B_STEP (TILE_N + 4)

// The tiles of the operands; simdgroups then put that of the result there.
#if SIMDGROUP
#define MEMORY (TILE_M * TILE_N)
#else
#define MEMORY (TILE_M * A_STEP + TILE_K * B_STEP)
#endif

#if CODES
typedef uchar Right;
#define CODES_BUFFERS , device const S* scale [[buffer(5)]], device const S* zero [[buffer(6)]]
#define CODES_PARAMETERS , device const S* scale, device const S* zero
#define CODES_ARGUMENTS , scale, zero
#else
typedef T Right;
#define CODES_BUFFERS
#define CODES_PARAMETERS
#define CODES_ARGUMENTS
#endif

#if CONVOLUTION

typedef ConvArgs Args;

/// A place along k: the input channel, and the tap of the window.
struct Inner {
  INDEX channel;
  int tap[3];
  bool inside;
};

/// An output channel.
struct Row {
  INDEX weights;
  bool inside;
};

/// An output element, by its image and its place there.
struct Column {
  INDEX input;
  INDEX output;
  int place[3];
  bool inside;
};

static Inner inner_at(constant Args& p, INDEX k) {
  Inner at;
  at.inside = k < INDEX(p.k);
  at.channel = k / p.taps;
  int tap = int(k - at.channel * p.taps);
  at.tap[2] = tap % p.window[2];
  tap /= p.window[2];
  at.tap[1] = tap % p.window[1];
  at.tap[0] = tap / p.window[1];
  return at;
}

static Row row_at(constant Args& p, INDEX i) {
  Row row;
  row.inside = i < INDEX(p.m);
  row.weights = i * INDEX(p.w_out);
  return row;
}

static Column column_at(constant Args& p, INDEX j) {
  Column column;
  column.inside = j < INDEX(p.n);
  column.place[2] = int(j % p.out[2]);
  j /= p.out[2];
  column.place[1] = int(j % p.out[1]);
  j /= p.out[1];
  column.place[0] = int(j % p.out[0]);
  const INDEX image = j / p.out[0];
  column.input = image * INDEX(p.x_image);
  column.output = image * INDEX(p.c_image);
  for (int d = 0; d < 3; ++d) {
    column.output += column.place[d] * INDEX(p.c_step[d]);
  }
  return column;
}

static float left(device const T* w, constant Args& p, Row row, Inner at) {
  if (!row.inside || !at.inside) {
    return 0.0f;
  }
  INDEX offset = row.weights + at.channel * INDEX(p.w_in);
  for (int d = 0; d < 3; ++d) {
    offset += at.tap[d] * INDEX(p.w_step[d]);
  }
  return float(w[offset]);
}

/// The input element that a tap meets; 0 in the padding, and between the elements of a transposed
/// convolution.
static float right(device const T* x, constant Args& p, Column column, Inner at) {
  bool inside = column.inside && at.inside;
  INDEX offset = column.input + at.channel * INDEX(p.x_channel);
  for (int d = 0; d < 3; ++d) {
#if TRANSPOSED
    const int scaled = column.place[d] + p.padding[d] - at.tap[d] * p.dilation[d];
    const int place = scaled / p.stride[d];
    inside = inside && scaled >= 0 && place * p.stride[d] == scaled && place < p.in[d];
#else
    const int place = column.place[d] * p.stride[d] - p.padding[d] + at.tap[d] * p.dilation[d];
    inside = inside && place >= 0 && place < p.in[d];
#endif
    offset += place * INDEX(p.x_step[d]);
  }
  return inside ? float(x[offset]) : 0.0f;
}

static void store(device T* c, device const T* bias, constant Args& p, INDEX i, INDEX j,
                  float value) {
  if (i < INDEX(p.m) && j < INDEX(p.n)) {
    if (p.has_bias != 0) {
      value += float(bias[i * INDEX(p.bias_step)]);
    }
    c[column_at(p, j).output + i * INDEX(p.c_channel)] = T(value);
  }
}

#else

#if CODES
typedef SmallLinearArgs Args;
#else
typedef MatmulArgs Args;
#endif

struct Inner {
  INDEX k;
};

struct Row {
  INDEX i;
};

struct Column {
  INDEX j;
};

static Inner inner_at(constant Args&, INDEX k) {
  Inner at;
  at.k = k;
  return at;
}

static Row row_at(constant Args&, INDEX i) {
  Row row;
  row.i = i;
  return row;
}

static Column column_at(constant Args&, INDEX j) {
  Column column;
  column.j = j;
  return column;
}

#if CODES

static float left(device const T* a, constant Args& p, Row row, Inner at) {
  const bool inside = row.i < INDEX(p.m) && at.k < INDEX(p.k);
  return inside ? float(a[row.i * INDEX(p.k) + at.k]) : 0.0f;
}

static float right(device const uchar* codes CODES_PARAMETERS, constant Args& p, Column column,
                   Inner at) {
  if (column.j >= INDEX(p.n) || at.k >= INDEX(p.k)) {
    return 0.0f;
  }
  const INDEX size = INDEX(p.group);
  const INDEX group = at.k / size;
  const INDEX number = column.j * (INDEX(p.k) / size) + group;
#if CODES == 4
  const INDEX half_size = size / 2;
  const INDEX place = at.k - group * size;
  const bool is_upper = place >= half_size;
  const uchar both = codes[number * half_size + place - (is_upper ? half_size : 0)];
  const float code = float(is_upper ? both >> 4 : both & 15);
#else
  const float code = float(as_type<char>(codes[column.j * INDEX(p.k) + at.k]));
#endif
  const float factor = float(scale[number]);
  return code * factor + small_linear_offset(p, factor, zero, long(number));
}

static void store(device T* c, device const T* bias, constant Args& p, INDEX i, INDEX j,
                  float value) {
  if (i < INDEX(p.m) && j < INDEX(p.n)) {
    c[i * INDEX(p.n) + j] = T(p.has_bias != 0 ? value + float(bias[j]) : value);
  }
}

#else

static float left(device const T* a, constant Args& p, Row row, Inner at) {
  const bool inside = row.i < INDEX(p.m) && at.k < INDEX(p.k);
  return inside ? float(a[row.i * INDEX(p.a_row) + at.k * INDEX(p.a_col)]) : 0.0f;
}

static float right(device const T* b, constant Args& p, Column column, Inner at) {
  const bool inside = column.j < INDEX(p.n) && at.k < INDEX(p.k);
  return inside ? float(b[at.k * INDEX(p.b_row) + column.j * INDEX(p.b_col)]) : 0.0f;
}

static void store(device T* c, device const T* s, constant Args& p, INDEX i, INDEX j,
                  float value) {
  if (i < INDEX(p.m) && j < INDEX(p.n)) {
    value *= p.alpha;
    if (p.add != 0) {
      value += p.beta * float(s[i * INDEX(p.s_row) + j * INDEX(p.s_col)]);
    }
    c[i * INDEX(p.c_row) + j * INDEX(p.c_col)] = T(value);
  }
}

#endif

#endif

/// Fills both tiles with what begins at `row`, `column` and `k`; each thread keeps to one place
/// along the direction that is contiguous in memory.
static void load_tiles(threadgroup float* a_tile, threadgroup float* b_tile, device const T* a,
                       device const Right* b CODES_PARAMETERS, constant Args& p, INDEX row,
                       INDEX column, INDEX k, int thread_index) {
#if A_K_FAST
  const int a_k = thread_index % TILE_K;
  const Inner a_inner = inner_at(p, k + a_k);
  for (int i = thread_index / TILE_K; i < TILE_M; i += THREADS / TILE_K) {
    a_tile[i * A_STEP + a_k] = left(a, p, row_at(p, row + i), a_inner);
  }
#else
  const int a_i = thread_index % TILE_M;
  const Row a_row = row_at(p, row + a_i);
  for (int i = thread_index / TILE_M; i < TILE_K; i += THREADS / TILE_M) {
    a_tile[a_i * A_STEP + i] = left(a, p, a_row, inner_at(p, k + i));
  }
#endif
#if B_K_FAST
  const int b_k = thread_index % TILE_K;
  const Inner b_inner = inner_at(p, k + b_k);
  for (int j = thread_index / TILE_K; j < TILE_N; j += THREADS / TILE_K) {
    b_tile[b_k * B_STEP + j] = right(b CODES_ARGUMENTS, p, column_at(p, column + j), b_inner);
  }
#else
  const int b_j = thread_index % TILE_N;
  const Column b_column = column_at(p, column + b_j);
  for (int j = thread_index / TILE_N; j < TILE_K; j += THREADS / TILE_N) {
    b_tile[j * B_STEP + b_j] = right(b CODES_ARGUMENTS, p, b_column, inner_at(p, k + j));
  }
#endif
}

[[max_total_threads_per_threadgroup(THREADS)]]
kernel void gemm(device const T* a [[buffer(0)]],
                 device const Right* b [[buffer(1)]],
                 device const T* s [[buffer(2)]],
                 device T* c [[buffer(3)]],
                 constant Args& p [[buffer(4)]] CODES_BUFFERS,
                 uint3 group [[threadgroup_position_in_grid]],
                 uint thread_index [[thread_index_in_threadgroup]],
                 uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  const INDEX row = INDEX(group.y) * TILE_M;
  const INDEX column = INDEX(group.x) * TILE_N;
#if CONVOLUTION
  a += long(group.z) * p.w_group;
  b += long(group.z) * p.channels * p.x_channel;
  s += long(group.z) * p.m * p.bias_step;
  c += long(group.z) * p.m * p.c_channel;
#elif !CODES
  a += long(group.z) * p.a_batch;
  b += long(group.z) * p.b_batch;
  s += long(group.z) * p.s_batch;
  c += long(group.z) * p.c_batch;
#endif

  threadgroup float memory[MEMORY];
  threadgroup float* a_tile = memory;
  threadgroup float* b_tile = memory + TILE_M * A_STEP;

#if SIMDGROUP
  // Four simdgroups share the tile as quarters of 32x32.
  const int quarter_row = int(simdgroup / 2) * 32;
  const int quarter_column = int(simdgroup % 2) * 32;
  // Arrays of matrices are in registers only where all loops over them are unrolled.
  simdgroup_float8x8 sums[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
  }
  for (INDEX k = 0; k < INDEX(p.k); k += TILE_K) {
    load_tiles(a_tile, b_tile, a, b CODES_ARGUMENTS, p, row, column, k, int(thread_index));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int inner = 0; inner < TILE_K; inner += 8) {
      simdgroup_float8x8 lefts[4];
      simdgroup_float8x8 rights[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        simdgroup_load(lefts[i], a_tile + (quarter_row + 8 * i) * A_STEP + inner, A_STEP);
        simdgroup_load(rights[i], b_tile + inner * B_STEP + quarter_column + 8 * i, B_STEP);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          simdgroup_multiply_accumulate(sums[i][j], lefts[i], rights[j], sums[i][j]);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      simdgroup_store(sums[i][j],
                      memory + (quarter_row + 8 * i) * TILE_N + quarter_column + 8 * j, TILE_N);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int e = int(thread_index); e < TILE_M * TILE_N; e += THREADS) {
    store(c, s, p, row + e / TILE_N, column + e % TILE_N, memory[e]);
  }
#else
  // Each thread computes 2x2 elements that stand 16 apart.
  const int i = int(thread_index / 16);
  const int j = int(thread_index % 16);
  float sums[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
  for (INDEX k = 0; k < INDEX(p.k); k += TILE_K) {
    load_tiles(a_tile, b_tile, a, b CODES_ARGUMENTS, p, row, column, k, int(thread_index));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int inner = 0; inner < TILE_K; ++inner) {
      for (int x = 0; x < 2; ++x) {
        const float factor = a_tile[(i + 16 * x) * A_STEP + inner];
        for (int y = 0; y < 2; ++y) {
          sums[x][y] += factor * b_tile[inner * B_STEP + j + 16 * y];
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (int x = 0; x < 2; ++x) {
    for (int y = 0; y < 2; ++y) {
      store(c, s, p, row + i + 16 * x, column + j + 16 * y, sums[x][y]);
    }
  }
#endif
}
