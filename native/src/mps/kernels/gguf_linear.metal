// Weights in blocks of GGUF files: 256 of a row in a block, as llama.cpp has them.
//
// Defines:
//   T       element type of x, bias and results: float, half or bfloat
//   KIND    4, 5 or 6 for q4_k, q5_k and q6_k
//   ROWS    rows of x, 1 to 4; any for gguf_widen
//
// gguf_linear_rows: out [ROWS, n] = x [ROWS, k] @ weight [n, k]^T + bias from row p.first on,
//   accumulated in float. A simdgroup computes COLUMNS columns, a block at a time. Groups of
//   32 * SIMDGROUPS threads; the grid of groups is [ceil(n / (COLUMNS * SIMDGROUPS)), 1, 1].
//   Buffers: 0 x, 1 blocks, 2 bias (any buffer where it is not read), 3 out, 4 arguments.
// gguf_widen: the weight as T [n, k]; 32 threads for each block. Buffers: 0 blocks, 1 out.

#define SIMDGROUPS 8
#define COLUMNS 4
#define BLOCK 256

#if KIND == 4
#define NBYTES 144
#elif KIND == 5
#define NBYTES 176
#else
#define NBYTES 210
#endif

/// What a lane has of a block: four neighbours, and four more `reach` behind them. Each is
/// `code * scale - minimum`.
struct Part {
  int place;
  int reach;
  float4 codes[2];
  float scale[2];
  float minimum[2];
};

static float half_at(device const uchar* at) {
  return float(as_type<half>(ushort(at[0] | at[1] << 8)));
}

/// Blocks of q6_k begin at any even byte.
static uint4 four_at(device const uchar* at) {
  return uint4(at[0], at[1], at[2], at[3]);
}

#if KIND == 6

static Part part_of(device const uchar* block, int lane) {
  const int half_of = lane / 16;  // 128 weights
  const int second = lane / 8 % 2;
  const int place = lane % 8 * 4;
  const uint4 low = four_at(block + 4 * lane);
  const uint4 high = four_at(block + 128 + half_of * 32 + place) >> uint(2 * second);
  Part part;
  part.place = half_of * 128 + second * 32 + place;
  part.reach = 64;
  part.codes[0] = float4((low & uint4(15)) | (high & uint4(3)) << 4u) - float4(32.0f);
  part.codes[1] = float4(low >> 4u | (high >> 4u & uint4(3)) << 4u) - float4(32.0f);
  const float step = half_at(block + 208);
  for (int i = 0; i < 2; ++i) {
    part.scale[i] = step * float(as_type<char>(block[192 + (part.place + 64 * i) / 16]));
    part.minimum[i] = 0.0f;
  }
  return part;
}

#else

static Part part_of(device const uchar* block, int lane) {
  const int run = lane / 8;  // 64 weights, of two groups
  const int place = lane % 8 * 4;
  const uint4 both = four_at(block + NBYTES - 128 + 4 * lane);
  uint4 codes[2] = {both & uint4(15), both >> 4u};
#if KIND == 5
  const uint4 fifth = four_at(block + 16 + place) >> uint(2 * run);
  codes[0] |= (fifth & uint4(1)) << 4u;
  codes[1] |= (fifth >> 1u & uint4(1)) << 4u;
#endif
  Part part;
  part.place = run * 64 + place;
  part.reach = 32;
  const float step = half_at(block);
  const float least = half_at(block + 2);
  device const uchar* packed = block + 4;
  for (int i = 0; i < 2; ++i) {
    const int group = 2 * run + i;
    int scale = packed[group % 4] & 63;
    int minimum = packed[4 + group % 4] & 63;
    if (group >= 4) {
      scale = (packed[4 + group] & 15) | packed[group - 4] >> 6 << 4;
      minimum = packed[4 + group] >> 4 | packed[group] >> 6 << 4;
    }
    part.codes[i] = float4(codes[i]);
    part.scale[i] = step * float(scale);
    part.minimum[i] = least * float(minimum);
  }
  return part;
}

#endif

[[max_total_threads_per_threadgroup(32 * SIMDGROUPS)]]
kernel void gguf_linear_rows(device const T* x [[buffer(0)]],
                             device const uchar* blocks [[buffer(1)]],
                             device const T* bias [[buffer(2)]],
                             device T* out [[buffer(3)]],
                             constant GgufLinearArgs& p [[buffer(4)]],
                             uint3 group [[threadgroup_position_in_grid]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]]) {
  const long first = (long(group.x) * SIMDGROUPS + simdgroup) * COLUMNS;
  const long count = p.k / BLOCK;
  x += p.first * p.k;
  out += p.first * p.n;
  // Columns past the end read the last one again and are not stored.
  device const uchar* columns[COLUMNS];
  float sums[ROWS][COLUMNS];
  for (int j = 0; j < COLUMNS; ++j) {
    columns[j] = blocks + min(first + j, long(p.n) - 1) * count * NBYTES;
    for (int i = 0; i < ROWS; ++i) {
      sums[i][j] = 0.0f;
    }
  }
  for (long b = 0; b < count; ++b) {
    for (int j = 0; j < COLUMNS; ++j) {
      const Part part = part_of(columns[j] + b * NBYTES, int(lane));
      for (int i = 0; i < ROWS; ++i) {
        device const T* row = x + i * p.k + b * BLOCK + part.place;
        for (int h = 0; h < 2; ++h) {
          device const T* at = row + h * part.reach;
          const float4 factors = float4(float(at[0]), float(at[1]), float(at[2]), float(at[3]));
          sums[i][j] += dot(factors, part.codes[h]) * part.scale[h] -
                        dot(factors, float4(1.0f)) * part.minimum[h];
        }
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

kernel void gguf_widen(device const uchar* blocks [[buffer(0)]],
                       device T* out [[buffer(1)]],
                       uint2 at [[thread_position_in_grid]]) {
  const long block = at.y;
  const Part part = part_of(blocks + block * NBYTES, int(at.x));
  device T* to = out + block * BLOCK + part.place;
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < 4; ++i) {
      to[h * part.reach + i] = T(part.codes[h][i] * part.scale[h] - part.minimum[h]);
    }
  }
}
