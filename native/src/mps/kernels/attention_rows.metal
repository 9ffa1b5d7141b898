// Attention of few queries, and of wide heads: out = softmax(q @ k^T * scale + mask) @ v with a
// running maximum ("online softmax"), such that no matrix of scores is kept; everything accumulates
// in float. A row that sees no key gets zeros.
//
// One query of one head for each group; its simdgroups share the keys, the lanes of each the
// elements of a key. Long caches are cut into p.splits pieces, a group for each, whose results
// attention_merge joins. Any D and DV. Groups of 32 * SIMDGROUPS threads; the grid of groups is
// [rows, batch * heads, splits]. A partial result is DV sums, the highest score, and the divisor.
//
// Defines:
//   T       element type of q, k, v and the result: float, half or bfloat
//   D, DV   elements of one key, and of one value
//   MASK    0: none; 1: of elements MASK_T, added; 2: of bools, false hides the key
//   MASK_T  element type of the mask, any one where MASK is 0
//
// Buffers: 0 q, 1 k, 2 v, 3 mask, 4 result, 5 partial results, 6 arguments; where there is no mask,
// or one piece of keys, any buffer stands in.

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

#define SIMDGROUPS 8
#define LANE_D ((D + 31) / 32)
#define LANE_DV ((DV + 31) / 32)

[[max_total_threads_per_threadgroup(32 * SIMDGROUPS)]]
kernel void attention_rows(device const T* q [[buffer(0)]],
                           device const T* k [[buffer(1)]],
                           device const T* v [[buffer(2)]],
                           device const MASK_T* mask [[buffer(3)]],
                           device T* out [[buffer(4)]],
                           device float* partial [[buffer(5)]],
                           constant AttentionArgs& p [[buffer(6)]],
                           uint3 group [[threadgroup_position_in_grid]],
                           uint simdgroup [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float all_highest[SIMDGROUPS];
  threadgroup float all_divisors[SIMDGROUPS];
  threadgroup float all_sums[SIMDGROUPS][32];
  const int row = int(group.x);
  const long batch = group.y / p.heads;
  const long head = group.y % p.heads;
  const long key_head = head / p.group;
  q += batch * p.q_batch + head * p.q_head + row * p.q_row;
  k += batch * p.k_batch + key_head * p.k_head;
  v += batch * p.v_batch + key_head * p.v_head;
  mask += batch * p.m_batch + head * p.m_head;
  out += batch * p.o_batch + head * p.o_head + row * p.o_row;

  float query[LANE_D];
  for (int i = 0; i < LANE_D; ++i) {
    const int d = 32 * i + int(lane);
    query[i] = d < D ? float(q[d * p.q_col]) * p.scale : 0.0f;
  }
  float sums[LANE_DV];
  for (int i = 0; i < LANE_DV; ++i) {
    sums[i] = 0.0f;
  }
  float highest = -INFINITY;
  float divisor = 0.0f;
  const int piece = (p.keys + p.splits - 1) / p.splits;
  const int first = int(group.z) * piece;
  const int seen = p.causal != 0 ? min(p.keys, row + 1) : p.keys;
  const int last = min(first + piece, seen);
  for (int key = first + int(simdgroup); key < last; key += SIMDGROUPS) {
    float product = 0.0f;
    for (int i = 0; i < LANE_D; ++i) {
      const int d = 32 * i + int(lane);
      product += d < D ? query[i] * float(k[key * p.k_row + d * p.k_col]) : 0.0f;
    }
    const float score = masked(simd_sum(product), mask, p, row, key);
    if (score == -INFINITY) {
      continue;
    }
    const float higher = fmax(highest, score);
    const float factor = highest == -INFINITY ? 0.0f : exp(highest - higher);
    const float weight = exp(score - higher);
    highest = higher;
    divisor = divisor * factor + weight;
    for (int i = 0; i < LANE_DV; ++i) {
      const int d = 32 * i + int(lane);
      const float value = d < DV ? float(v[key * p.v_row + d * p.v_col]) : 0.0f;
      sums[i] = sums[i] * factor + weight * value;
    }
  }

  if (lane == 0) {
    all_highest[simdgroup] = highest;
    all_divisors[simdgroup] = divisor;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float group_highest = -INFINITY;
  for (int g = 0; g < SIMDGROUPS; ++g) {
    group_highest = fmax(group_highest, all_highest[g]);
  }
  float group_divisor = 0.0f;
  for (int g = 0; g < SIMDGROUPS; ++g) {
    if (all_divisors[g] != 0.0f) {
      group_divisor += all_divisors[g] * exp(all_highest[g] - group_highest);
    }
  }
  const float factor = divisor == 0.0f ? 0.0f : exp(highest - group_highest);
  const long result = ((long(group.y) * p.rows + row) * p.splits + group.z) * (DV + 2);
  for (int i = 0; i < LANE_DV; ++i) {
    all_sums[simdgroup][lane] = sums[i] * factor;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const int d = 32 * i + int(lane);
    if (simdgroup == 0 && d < DV) {
      float sum = 0.0f;
      for (int g = 0; g < SIMDGROUPS; ++g) {
        sum += all_sums[g][lane];
      }
      if (p.splits == 1) {
        out[d * p.o_col] = T(group_divisor == 0.0f ? 0.0f : sum / group_divisor);
      } else {
        partial[result + d] = sum;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (p.splits > 1 && simdgroup == 0 && lane == 0) {
    partial[result + DV] = group_highest;
    partial[result + DV + 1] = group_divisor;
  }
}

/// Joins the partial results of each row. The grid of threads is [DV, rows, batch * heads].
kernel void attention_merge(device T* out [[buffer(0)]],
                            device const float* partial [[buffer(1)]],
                            constant AttentionArgs& p [[buffer(2)]],
                            uint3 at [[thread_position_in_grid]]) {
  const long batch = at.z / p.heads;
  const long head = at.z % p.heads;
  partial += (long(at.z) * p.rows + at.y) * p.splits * (DV + 2);
  float highest = -INFINITY;
  for (int s = 0; s < p.splits; ++s) {
    highest = fmax(highest, partial[s * (DV + 2) + DV]);
  }
  float sum = 0.0f;
  float divisor = 0.0f;
  for (int s = 0; s < p.splits; ++s) {
    device const float* piece = partial + s * (DV + 2);
    if (piece[DV + 1] != 0.0f) {
      const float factor = exp(piece[DV] - highest);
      sum += piece[at.x] * factor;
      divisor += piece[DV + 1] * factor;
    }
  }
  out[batch * p.o_batch + head * p.o_head + at.y * p.o_row + at.x * p.o_col] =
      T(divisor == 0.0f ? 0.0f : sum / divisor);
}
