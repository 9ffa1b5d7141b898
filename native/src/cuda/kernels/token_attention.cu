// Attention of one token over a cache: rotates its query and key, writes key and value, and attends
// to the positions that the mask lets in, in one kernel. What the cache could hold costs nothing but
// the look at the mask.
//
// A cluster of blocks has heads of the query that share a head of the cache. Each block has every
// so many-th chunk of the positions; the one with the first chunk puts together what they found. A
// warp has 16 positions at a time: tensor cores give the scores of 8 heads, and each lane adds up
// some elements of the values.

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/scatter.h"
#include "cuda/kernels/token_attention.h"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// SIZE elements of a head, HEADS (4 or 8) heads of a cluster.
template <typename T, int SIZE, int HEADS>
class AttentionOfToken {
  static constexpr int kRows = 16;           ///< positions of a warp at a time
  static constexpr int kParts = SIZE / 32;   ///< of 32 elements of a head
  static constexpr int kPairs = SIZE / 64;   ///< of a lane's elements of a value
  static constexpr int kLanes = SIZE / 8;    ///< with 8 elements of a head each
  static constexpr int kFound = SIZE + 2;    ///< of a head: sums, their weight, the maximum
  static constexpr int kNoBase = -1;
  static constexpr int kOwnKey = 8;          ///< behind rows of the query, the token's own key
  static constexpr float kNone = -1e30f;     ///< below any score
  static constexpr float kLog2E = 1.44269504f;

  struct Shared {
    float found[kTokenWarps][HEADS][kFound];
    float of_blocks[kMostSharers][HEADS][kFound];  ///< of the blocks of the cluster
    float4 weights[kTokenWarps][kRows][HEADS / 4];  ///< of a warp's positions
    float4 factors[kTokenWarps][HEADS / 4];         ///< for what it found before
    uint4 query[8][kLanes];                        ///< of heads that there are not, zeros
    uint4 key[kLanes];                             ///< the token's own
    uint4 value[kLanes];
  };

 public:
  static constexpr int kNbytes = sizeof(Shared);

  __device__ AttentionOfToken(const TokenAttention& p, void* memory)
      : p_(p),
        shared_(*static_cast<Shared*>(memory)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {
    const int group = p.heads / p.kv_heads;
    const int parts_of_group = (group + HEADS - 1) / HEADS;
    const int unit = static_cast<int>(blockIdx.x) / p.sharers;
    rank_ = static_cast<int>(blockIdx.x) % p.sharers;
    head_ = unit / parts_of_group;
    query_head_ = head_ * group + unit % parts_of_group * HEADS;
    heads_ = min(HEADS, (head_ + 1) * group - query_head_);
  }

  __device__ void run() {
    let_next_begin();
    begin_cluster();
    const int guess = guessed_base();
    prefetch(guess);
    prefetch_arguments();
    wait_for_inputs();
    const int64_t position = *p_.position;
    fetch(guess, p_.capacity);
    const int4 range = read_range();
    take_in();
    position_ = position >= 0 && position < p_.capacity ? static_cast<int>(position) : -1;
    begin_ = range.x;
    end_ = range.y;
    mask_ = range.z != 0 ? nullptr : p_.mask;
    __syncthreads();
    const int first = begin_ / kTokenChunk;
    const int chunks = end_ > begin_ ? (end_ - 1) / kTokenChunk + 1 - first : 0;
    const int order = order_of(first);
    write_cache(first + order, order == 0);
    attend(first, chunks, order, guess);
    __syncthreads();
    wait_for_cluster();
    const int sharers = min(chunks, p_.sharers);
    if (order < max(sharers, 1)) {
      put_together(first & (p_.sharers - 1), order, sharers);
    }
    if (sharers > 1) {
      meet_cluster();
      if (order == 0) {
        write(sharers);
      }
    }
  }

 private:
  __device__ static float* numbers_of(float4* fours) { return reinterpret_cast<float*>(fours); }

  __device__ static float number_of(const float4& four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
  }

  __device__ static void floats_of(const uint4& eight, float (&ret)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = HalfPair<T>::floats(word_of(eight, i));
      ret[2 * i] = pair.x;
      ret[2 * i + 1] = pair.y;
    }
  }

  /// Which of the chunks from the first one on is this block's first; sharers are a power of two.
  __device__ int order_of(int first) const {
    return (rank_ - first) & (p_.sharers - 1);
  }

  /// The mask's range, or all.
  __device__ int4 read_range() const {
    return p_.range != nullptr ? *reinterpret_cast<const int4*>(p_.range)
                               : make_int4(0, p_.capacity, 1, 0);
  }

  /// The first of this warp's first positions, before one may know: by the range that is in memory,
  /// which may be of another token.
  __device__ int guessed_base() const {
    const int4 range = p_.range != nullptr ? load_hint(reinterpret_cast<const int4*>(p_.range))
                                           : make_int4(0, p_.capacity, 1, 0);
    const int first = min(max(range.x, 0), p_.capacity) / kTokenChunk;
    const int base = (first + order_of(first)) * kTokenChunk + warp_ * kRows;
    return base < min(range.y, p_.capacity) ? base : kNoBase;
  }

  /// Begins to bring keys and values of 16 positions into the GPU's cache.
  __device__ void prefetch(int base) const {
    const int row = base + lane_ % kRows;
    if (base >= 0 && row < p_.capacity) {
      const bool is_key = lane_ < kRows;
      const T* const from =
          is_key ? row_of(at(p_.keys, head_ * p_.keys_step), row, p_.keys_row)
                 : row_of(at(p_.values, head_ * p_.values_step), row, p_.values_row);
#pragma unroll
      for (int i = 0; i < SIZE; i += 64) {
        prefetch_line(from + i);
      }
    }
  }

  /// The same for what all layers read, which weights have driven out of it since the last one.
  __device__ void prefetch_arguments() const {
    const void* line = nullptr;
    line = lane_ == 0 ? p_.position : line;
    line = lane_ == 1 ? p_.range : line;
    line = lane_ == 2 ? p_.cos : line;
    line = lane_ == 3 ? p_.sin : line;
    line = lane_ == 4 ? p_.query_norm : line;
    line = lane_ == 5 ? p_.key_norm : line;
    if (warp_ == kTokenWarps - 1 && line != nullptr) {
      prefetch_line(line);
      if (lane_ > 1) {
        prefetch_line(at(line, SIZE - 1));  // 128 elements are two lines
      }
    }
  }

  /// The query, and the token's own key and value, for all warps; some lanes have a row each.
  __device__ void take_in() {
    const int row = warp_ * (32 / kLanes) + lane_ / kLanes;
    const int place = lane_ % kLanes;
    const bool is_key = row == kOwnKey;
    const bool is_value = row == kOwnKey + 1;
    if (row - lane_ / kLanes > kOwnKey + 1) {
      return;
    }
    const T* head = at(p_.query, (query_head_ + min(row, heads_ - 1)) * p_.query_step);
    head = is_key ? at(p_.key, head_ * p_.key_step) : head;
    head = is_value ? at(p_.value, head_ * p_.value_step) : head;
    const void* const norm = is_value ? nullptr : is_key ? p_.key_norm : p_.query_norm;
    const uint4 plain = reinterpret_cast<const uint4*>(head)[place];
    const uint4 turned = rotated(plain, head, norm);
    if (row < kOwnKey) {
      shared_.query[row][place] = row < heads_ ? turned : make_uint4(0, 0, 0, 0);
    } else if (is_key) {
      shared_.key[place] = turned;
    } else if (is_value) {
      shared_.value[place] = plain;
    }
  }

  __device__ static const T* at(const void* from, int64_t i) {
    return static_cast<const T*>(from) + i;
  }

  /// This lane's elements of a head, which are `plain`, normed if there are factors, and rotated.
  __device__ uint4 rotated(const uint4& plain, const T* head, const void* norm) const {
    const int first = lane_ % kLanes * 8;
    const int other = (first + SIZE / 2) % SIZE;
    float own[8], far[8], cos[8], sin[8];
    floats_of(plain, own);
    floats_of(*reinterpret_cast<const uint4*>(head + other), far);
    floats_of(*reinterpret_cast<const uint4*>(at(p_.cos, first)), cos);
    floats_of(*reinterpret_cast<const uint4*>(at(p_.sin, first)), sin);
    if (p_.query_norm != nullptr || p_.key_norm != nullptr) {
      const float factor = inverse(own);  // all lanes
      if (norm != nullptr) {
        scale(own, factor, at(norm, first));
        scale(far, factor, at(norm, other));
      }
    }
    const float sign = first < SIZE / 2 ? -1.0f : 1.0f;
    uint32_t found[4];
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      found[i / 2] = HalfPair<T>::of(own[i] * cos[i] + sign * far[i] * sin[i],
                                     own[i + 1] * cos[i + 1] + sign * far[i + 1] * sin[i + 1]);
    }
    return make_uint4(found[0], found[1], found[2], found[3]);
  }

  /// One over the root of a head's mean square.
  __device__ float inverse(const float (&own)[8]) const {
    float square = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      square += own[i] * own[i];
    }
#pragma unroll
    for (int reach = kLanes / 2; reach > 0; reach /= 2) {
      square += __shfl_xor_sync(kAllLanes, square, reach);
    }
    return rsqrtf(square * (1.0f / SIZE) + p_.epsilon);
  }

  __device__ static void scale(float (&x)[8], float factor, const T* factors) {
    float of_norm[8];
    floats_of(*reinterpret_cast<const uint4*>(factors), of_norm);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      x[i] = static_cast<float>(static_cast<T>(x[i] * factor * of_norm[i]));
    }
  }

  /// Who reads the token's position writes it; the first block if nobody may read it. All take what
  /// they need of it from shared memory.
  __device__ void write_cache(int chunk, bool is_first) const {
    const bool is_inside = position_ >= 0;
    if (!is_inside && is_first && threadIdx.x == 0 && p_.fault != nullptr) {
      *p_.fault = kFaultIndex;
    }
    const bool is_read = position_ >= begin_ && position_ < end_;
    const int of_chunk = position_ / kTokenChunk - chunk;
    const bool is_here = is_read ? of_chunk >= 0 && (of_chunk & (p_.sharers - 1)) == 0 : is_first;
    if (is_inside && is_here && warp_ < 2 && lane_ < kLanes) {
      const T* const to =
          warp_ == 0 ? row_of(at(p_.keys, head_ * p_.keys_step), position_, p_.keys_row)
                     : row_of(at(p_.values, head_ * p_.values_step), position_, p_.values_row);
      reinterpret_cast<uint4*>(const_cast<T*>(to))[lane_] =
          warp_ == 0 ? shared_.key[lane_] : shared_.value[lane_];
    }
  }

  /// Sets out to fetch keys and values of 16 positions, if they begin before `end`. Of each 32 elements
  /// of a key a lane has 8, of two positions; of a value every 32nd pair, of all positions.
  __device__ void fetch(int base, int end) {
    if (base < 0 || base >= end) {
      return;
    }
    const T* const keys = at(p_.keys, head_ * p_.keys_step + lane_ % 4 * 8);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T* const from = row_of(keys, min(base + lane_ / 4 + half * 8, end - 1), p_.keys_row);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        keys_[part][half] = *reinterpret_cast<const uint4*>(from + part * 32);
      }
    }
    const T* const values = at(p_.values, head_ * p_.values_step + lane_ * 2);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const T* const from = row_of(values, min(base + row, end - 1), p_.values_row);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        values_[row][i] = *reinterpret_cast<const uint32_t*>(from + i * 64);
      }
    }
  }

  /// A row of a cache, for which one instruction is enough.
  __device__ static const T* row_of(const T* cache, int row, int32_t step) {
    const uint32_t nbytes = static_cast<uint32_t>(step) * sizeof(T);
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(cache) +
                                      static_cast<uint64_t>(static_cast<uint32_t>(row)) * nbytes);
  }

  /// `fetched`: the first of the positions that are on their way.
  __device__ void attend(int first, int chunks, int order, int fetched) {
    float most[2] = {kNone, kNone};
    float weight[2] = {0.0f, 0.0f};
    float sum[HEADS][2 * kPairs] = {};
#pragma unroll 1
    for (int chunk = order; chunk < chunks; chunk += p_.sharers) {
      const int base = (first + chunk) * kTokenChunk + warp_ * kRows;
      if (base != fetched) {
        fetch(base, end_);
      }
      if (base < end_ && base + kRows > begin_) {
        float scores[4] = {};
        multiply(base, scores);
        weigh(base, scores, most, weight);
        __syncwarp();
        add_values(base, sum);
        __syncwarp();
      }
      fetched = kNoBase;
    }
    keep(most, weight, sum);
  }

  /// Scores of positions lane / 4 and 8 on, of heads lane % 4 * 2 and the next one.
  __device__ void multiply(int base, float (&scores)[4]) const {
    const int own = position_ - base;  // in the cache it is only now
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const uint4 query = shared_.query[lane_ / 4][part * 4 + lane_ % 4];
      const uint4 key = shared_.key[part * 4 + lane_ % 4];
      const uint4 a = own == lane_ / 4 ? key : keys_[part][0];
      const uint4 b = own == lane_ / 4 + 8 ? key : keys_[part][1];
      const uint32_t first[4] = {a.x, b.x, a.y, b.y};
      const uint32_t second[4] = {a.z, b.z, a.w, b.w};
      multiply_tile<T>(scores, first, query.x, query.y);
      multiply_tile<T>(scores, second, query.z, query.w);
    }
  }

  /// Scores become weights, relative to this warp's maximum so far.
  __device__ void weigh(int base, float (&scores)[4], float (&most)[2], float (&weight)[2]) {
    const float factor = p_.scale * kLog2E;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = base + lane_ / 4 + half * 8;
      const bool is_in =
          position >= begin_ && position < end_ && (mask_ == nullptr || mask_[position]);
      scores[half * 2] = is_in ? scores[half * 2] * factor : kNone;
      scores[half * 2 + 1] = is_in ? scores[half * 2 + 1] * factor : kNone;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float highest = fmaxf(scores[i], scores[i + 2]);
#pragma unroll
      for (int reach = 4; reach < 32; reach *= 2) {
        highest = fmaxf(highest, __shfl_xor_sync(kAllLanes, highest, reach));
      }
      highest = fmaxf(highest, most[i]);
      const float before = exp2f(most[i] - highest);
      const float first = scores[i] > kNone ? exp2f(scores[i] - highest) : 0.0f;
      const float second = scores[i + 2] > kNone ? exp2f(scores[i + 2] - highest) : 0.0f;
      most[i] = highest;
      weight[i] = weight[i] * before + first + second;
      const int head = lane_ % 4 * 2 + i;
      if (head < HEADS) {
        numbers_of(shared_.weights[warp_][lane_ / 4])[head] = first;
        numbers_of(shared_.weights[warp_][lane_ / 4 + 8])[head] = second;
        if (lane_ < 4) {
          numbers_of(shared_.factors[warp_])[head] = before;
        }
      }
    }
  }

  /// Adds values times weights to what there was; a lane has every 32nd pair of elements.
  __device__ void add_values(int base, float (&sum)[HEADS][2 * kPairs]) const {
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      const float before = number_of(shared_.factors[warp_][h / 4], h % 4);
#pragma unroll
      for (int i = 0; i < 2 * kPairs; ++i) {
        sum[h][i] *= before;
      }
    }
    uint32_t own_value[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      own_value[i] = reinterpret_cast<const uint32_t*>(shared_.value)[i * 32 + lane_];
    }
    const int own = position_ - base;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      float value[2 * kPairs];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const float2 pair = HalfPair<T>::floats(row == own ? own_value[i] : values_[row][i]);
        value[2 * i] = pair.x;
        value[2 * i + 1] = pair.y;
      }
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        const float weight = number_of(shared_.weights[warp_][row][h / 4], h % 4);
#pragma unroll
        for (int i = 0; i < 2 * kPairs; ++i) {
          sum[h][i] += weight * value[i];
        }
      }
    }
  }

  /// What this warp found, in shared memory.
  __device__ void keep(const float (&most)[2], float (&weight)[2],
                       const float (&sum)[HEADS][2 * kPairs]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int reach = 4; reach < 32; reach *= 2) {
        weight[i] += __shfl_xor_sync(kAllLanes, weight[i], reach);
      }
      if (lane_ < HEADS / 2) {
        float* const found = shared_.found[warp_][lane_ * 2 + i];
        found[SIZE] = weight[i];
        found[SIZE + 1] = most[i];
      }
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        reinterpret_cast<float2*>(shared_.found[warp_][h])[i * 32 + lane_] =
            make_float2(sum[h][2 * i], sum[h][2 * i + 1]);
      }
    }
  }

  /// An element's sum over parts, each relative to the maximum of its scores: the value, the weight,
  /// and the maximum of all. Parts of which only the first `count` are there.
  template <int COUNT>
  __device__ static float3 sum_over(const float (&parts)[COUNT][HEADS][kFound], int count, int head,
                                    int element) {
    float most = kNone;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      most = i < count ? fmaxf(most, parts[i][head][SIZE + 1]) : most;
    }
    float value = 0.0f;
    float weight = 0.0f;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      if (i < count) {
        const float factor = exp2f(parts[i][head][SIZE + 1] - most);
        value += factor * parts[i][head][element];
        weight += factor * parts[i][head][SIZE];
      }
    }
    return make_float3(value, weight, most);
  }

  /// What the warps found becomes the result, or goes to the block that puts all blocks' together.
  __device__ void put_together(int leader, int order, int sharers) {
    float* const to = shared_of_block(&shared_.of_blocks[order][0][0], leader);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < heads_ * SIZE; i += kTokenWarps * 32) {
      const int head = i / SIZE;
      const int element = i % SIZE;
      const float3 all = sum_over(shared_.found, sharers > 0 ? kTokenWarps : 0, head, element);
      if (sharers <= 1) {
        write_element(head, element, all);
        continue;
      }
      to[head * kFound + element] = all.x;
      if (element == 0) {
        to[head * kFound + SIZE] = all.y;
        to[head * kFound + SIZE + 1] = all.z;
      }
    }
  }

  /// The result of all blocks.
  __device__ void write(int sharers) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < heads_ * SIZE; i += kTokenWarps * 32) {
      write_element(i / SIZE, i % SIZE,
                    sum_over(shared_.of_blocks, sharers, i / SIZE, i % SIZE));
    }
  }

  __device__ void write_element(int head, int element, const float3& all) const {
    static_cast<T*>(p_.out)[(query_head_ + head) * SIZE + element] =
        static_cast<T>(all.y > 0.0f ? __fdividef(all.x, all.y) : 0.0f);
  }

  const TokenAttention& p_;
  Shared& shared_;
  const int lane_;
  const int warp_;
  int rank_;  ///< in the cluster
  int head_;  ///< of the cache
  int query_head_;
  int heads_;
  int position_ = 0;  ///< of the token; negative for one outside of the cache
  int begin_ = 0;         ///< of the positions that are attended to
  int end_ = 0;
  const bool* mask_ = nullptr;  ///< null where all between are
  uint4 keys_[kParts][2];       ///< on their way
  uint32_t values_[kRows][kPairs];
};

}  // namespace

#define AOTIP_TOKEN_ATTENTION(KIND, TYPE, SIZE, HEADS)                                         \
  extern "C" __global__ void __launch_bounds__(kTokenWarps * 32)                               \
      aotip_token_attention_##KIND##_##SIZE##_##HEADS(const TokenAttention p) {                \
    static_assert(AttentionOfToken<TYPE, SIZE, HEADS>::kNbytes <=                              \
                  kTokenAttentionNbytes<SIZE, HEADS>);                                         \
    AttentionOfToken<TYPE, SIZE, HEADS>(p, launched_memory()).run();                           \
  }

AOTIP_TOKEN_ATTENTION(bf16, __nv_bfloat16, 64, 4)
AOTIP_TOKEN_ATTENTION(bf16, __nv_bfloat16, 64, 8)
AOTIP_TOKEN_ATTENTION(bf16, __nv_bfloat16, 128, 4)
AOTIP_TOKEN_ATTENTION(bf16, __nv_bfloat16, 128, 8)
AOTIP_TOKEN_ATTENTION(f16, __half, 64, 4)
AOTIP_TOKEN_ATTENTION(f16, __half, 64, 8)
AOTIP_TOKEN_ATTENTION(f16, __half, 128, 4)
AOTIP_TOKEN_ATTENTION(f16, __half, 128, 8)
