// Attention of many queries: out = softmax(q @ k^T * scale + mask) @ v with a running maximum ("online
// softmax"), such that no matrix of scores is kept; everything accumulates in float. A row that
// sees no key gets zeros.
//
// A group takes ROWS queries of one head, eight for each of its four simdgroups, and walks over the
// keys in tiles through threadgroup memory; products by simdgroup matrices. D and DV at most 128.
// Groups of THREADS threads; the grid of groups is [ceil(rows / ROWS), batch * heads].
//
// Defines:
//   T       element type of q, k, v and the result: float, half or bfloat
//   D, DV   elements of one key, and of one value
//   MASK    0: none; 1: of elements MASK_T, added; 2: of bools, false hides the key
//   MASK_T  element type of the mask, any one where MASK is 0
//
// Buffers: 0 q, 1 k, 2 v, 3 mask (any buffer where there is none), 4 result, 5 arguments.

/// A score with its mask; minus infinity where the row does not see the key.
static float masked(float score, device const MASK_T* mask, constant AttentionArgs& p, int row,
                    int key) {
  if (key >= p.keys || (p.causal != 0 && key > row)) {
    return -INFINITY;
  }
#if MASK == 1
  return score + float(mask[row * p.m_row + key * p.m_col]);
#elif MASK == 2
  return mask[row * p.m_row + key * p.m_col] ? score : -INFINITY;
#else
  return score;
#endif
}

#define ROWS 32
#define KEYS 32
#define THREADS 128
#define D_BLOCKS ((D + 7) / 8)
#define DV_BLOCKS ((DV + 7) / 8)
#define WIDEST (D_BLOCKS > DV_BLOCKS ? D_BLOCKS : DV_BLOCKS)
#define STEP (8 * WIDEST + 4)
#define SCORE_STEP (KEYS + 4)

/// Copies `width` columns of ROWS (= KEYS) rows from `first` on; zeros stand for what is not there.
static void load_tile(threadgroup float* tile, device const T* from, long row_step, long col_step,
                      int first, int rows, int width, int padded, int thread_index) {
  for (int e = thread_index; e < ROWS * padded; e += THREADS) {
    const int row = e / padded;
    const int column = e % padded;
    const bool inside = first + row < rows && column < width;
    tile[row * STEP + column] =
        inside ? float(from[(first + row) * row_step + column * col_step]) : 0.0f;
  }
}

[[max_total_threads_per_threadgroup(THREADS)]]
kernel void attention_tiled(device const T* q [[buffer(0)]],
                            device const T* k [[buffer(1)]],
                            device const T* v [[buffer(2)]],
                            device const MASK_T* mask [[buffer(3)]],
                            device T* out [[buffer(4)]],
                            constant AttentionArgs& p [[buffer(5)]],
                            uint3 group [[threadgroup_position_in_grid]],
                            uint thread_index [[thread_index_in_threadgroup]],
                            uint simdgroup [[simdgroup_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[ROWS * STEP];
  threadgroup float scores[ROWS * SCORE_STEP];
  threadgroup float factors[4 * 64];  // a diagonal matrix for each simdgroup
  threadgroup float divisors[ROWS];
  const long batch = group.y / p.heads;
  const long head = group.y % p.heads;
  const long key_head = head / p.group;
  q += batch * p.q_batch + head * p.q_head;
  k += batch * p.k_batch + key_head * p.k_head;
  v += batch * p.v_batch + key_head * p.v_head;
  mask += batch * p.m_batch + head * p.m_head;
  out += batch * p.o_batch + head * p.o_head;
  const int first_row = int(group.x) * ROWS;

  load_tile(tile, q, p.q_row, p.q_col, first_row, p.rows, D, 8 * D_BLOCKS, int(thread_index));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  // Arrays of matrices are in registers only where all loops over them are unrolled.
  simdgroup_float8x8 queries[D_BLOCKS];
#pragma unroll
  for (int d = 0; d < D_BLOCKS; ++d) {
    simdgroup_load(queries[d], tile + 8 * simdgroup * STEP + 8 * d, STEP);
  }
  simdgroup_float8x8 sums[DV_BLOCKS];
#pragma unroll
  for (int d = 0; d < DV_BLOCKS; ++d) {
    sums[d] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  // Four lanes share one of the simdgroup's rows, with eight keys each.
  const int local_row = 8 * int(simdgroup) + int(lane / 4);
  const int quarter = int(lane % 4);
  const int row = first_row + local_row;
  threadgroup float* my_scores = scores + local_row * SCORE_STEP + 8 * quarter;
  threadgroup float* my_factors = factors + 64 * simdgroup + 8 * (lane / 4) + 2 * quarter;
  float highest = -INFINITY;
  float divisor = 0.0f;
  // A row with a score that is not a number is kept out of the products, where it would spoil its
  // neighbours.
  bool broken = false;

  const int last_key = p.causal != 0 ? min(p.keys, first_row + ROWS) : p.keys;
  for (int first = 0; first < last_key; first += KEYS) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    load_tile(tile, k, p.k_row, p.k_col, first, p.keys, D, 8 * D_BLOCKS, int(thread_index));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int j = 0; j < KEYS / 8; ++j) {
      simdgroup_float8x8 products = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
#pragma unroll
      for (int d = 0; d < D_BLOCKS; ++d) {
        simdgroup_float8x8 keys;
        simdgroup_load(keys, tile + 8 * j * STEP + 8 * d, STEP, ulong2(0, 0), true);
        simdgroup_multiply_accumulate(products, queries[d], keys, products);
      }
      simdgroup_store(products, scores + 8 * simdgroup * SCORE_STEP + 8 * j, SCORE_STEP);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);

    float weights[8];
    float tile_highest = highest;
    for (int j = 0; j < 8; ++j) {
      const int key = first + 8 * quarter + j;
      weights[j] = row < p.rows ? masked(my_scores[j] * p.scale, mask, p, row, key) : -INFINITY;
      tile_highest = fmax(tile_highest, weights[j]);
    }
    tile_highest = fmax(tile_highest, simd_shuffle_xor(tile_highest, 1));
    tile_highest = fmax(tile_highest, simd_shuffle_xor(tile_highest, 2));
    float total = 0.0f;
    for (int j = 0; j < 8; ++j) {
      weights[j] = weights[j] == -INFINITY ? 0.0f : exp(weights[j] - tile_highest);
      total += weights[j];
    }
    total += simd_shuffle_xor(total, 1);
    total += simd_shuffle_xor(total, 2);
    broken = broken || isnan(total);
    const float factor = highest == -INFINITY ? 0.0f : exp(highest - tile_highest);
    divisor = divisor * factor + total;
    highest = tile_highest;
    for (int j = 0; j < 8; ++j) {
      my_scores[j] = broken ? 0.0f : weights[j];
    }
    for (int j = 0; j < 2; ++j) {
      my_factors[j] = 2 * quarter + j == int(lane / 4) ? (broken ? 0.0f : factor) : 0.0f;
    }

    threadgroup_barrier(mem_flags::mem_threadgroup);
    load_tile(tile, v, p.v_row, p.v_col, first, p.keys, DV, 8 * DV_BLOCKS, int(thread_index));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 diagonal;
    simdgroup_load(diagonal, factors + 64 * simdgroup, 8);
#pragma unroll
    for (int d = 0; d < DV_BLOCKS; ++d) {
      simdgroup_float8x8 scaled;
      simdgroup_multiply(scaled, diagonal, sums[d]);
      for (int j = 0; j < KEYS / 8; ++j) {
        simdgroup_float8x8 shares;
        simdgroup_float8x8 values;
        simdgroup_load(shares, scores + 8 * simdgroup * SCORE_STEP + 8 * j, SCORE_STEP);
        simdgroup_load(values, tile + 8 * j * STEP + 8 * d, STEP);
        simdgroup_multiply_accumulate(scaled, shares, values, scaled);
      }
      sums[d] = scaled;
    }
  }

  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (int d = 0; d < DV_BLOCKS; ++d) {
    simdgroup_store(sums[d], tile + 8 * simdgroup * STEP + 8 * d, STEP);
  }
  if (quarter == 0) {
    divisors[local_row] = broken ? NAN : divisor;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int e = int(thread_index); e < ROWS * DV; e += THREADS) {
    const int r = e / DV;
    const int column = e % DV;
    if (first_row + r < p.rows) {
      const float value = divisors[r] == 0.0f ? 0.0f : tile[r * STEP + column] / divisors[r];
      out[(first_row + r) * p.o_row + column * p.o_col] = T(value);
    }
  }
}
