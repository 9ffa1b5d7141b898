// Attention of one token over a cache: rotates its query and key, writes key and value, and attends
// to the positions that the mask lets in, in one kernel. What the cache could hold costs nothing
// but the look at the mask.
//
// A cluster of blocks has heads of the query that share a head of the cache. Each block has every
// so many-th chunk of the positions; the one with the first chunk puts together what they found. A
// warp has 16 positions at a time, of which tensor cores give the scores of 8 heads, and then the
// sums of their values: scores of a head lie in four lanes, as factors of such a product do.
//
// Clusters behind those of the last head stand by: see ops/token_attention.cpp.

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/scatter.h"
#include "cuda/kernels/token_attention.h"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// SIZE elements of a head.
template <typename T, int SIZE>
class AttentionOfToken {
  static constexpr int kRows = 16;          ///< positions of a warp at a time
  static constexpr int kParts = SIZE / 32;  ///< of 32 elements of a key
  static constexpr int kRuns = SIZE / 64;   ///< of 64 elements of a value
  static constexpr int kLanes = SIZE / 8;   ///< with 8 elements of a head each
  static constexpr int kFound = SIZE + 4;   ///< of a head: sums, their weight, the maximum
  static constexpr int kNoBase = -1;
  static constexpr int kOwnKey = kTokenHeads;  ///< behind rows of the query, the token's own key
  static constexpr int kTogether = 4;          ///< parts that are read at a time
  static constexpr float kNone = -1e30f;       ///< below any score
  static constexpr float kLog2E = 1.44269504f;

  struct Shared {
    float found[kTokenWarps + kMostSharers][kTokenHeads][kFound];  ///< of warps, then of blocks
    uint4 query[kTokenHeads][kLanes];  ///< of heads that there are not, zeros
    uint4 key[kLanes];                 ///< the token's own
    uint4 value[kLanes];
  };
  static_assert(kTokenWarps % kTogether == 0 && kMostSharers % kTogether == 0);
  static_assert(kTokenHeads * SIZE / 4 <= kTokenWarps * 32);

  /// Some elements of what was found of a head.
  struct Found {
    float4 sums;
    float weight;
    float most;
  };

 public:
  static constexpr int kNbytes = sizeof(Shared);

  __device__ AttentionOfToken(const TokenAttention& p, void* memory)
      : p_(p),
        shared_(*static_cast<Shared*>(memory)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {
    const int group = p.heads / p.kv_heads;
    const int parts_of_group = (group + kTokenHeads - 1) / kTokenHeads;
    const int unit = static_cast<int>(blockIdx.x) / p.sharers;
    order_ = static_cast<int>(blockIdx.x) % p.sharers;
    head_ = unit / parts_of_group;
    query_head_ = head_ * group + unit % parts_of_group * kTokenHeads;
    heads_ = head_ < p.kv_heads ? min(kTokenHeads, (head_ + 1) * group - query_head_) : 0;
  }

  __device__ void run() {
    let_next_begin();
    if (heads_ <= 0) {
      wait_for_inputs();
      return;
    }
    begin_cluster();
    // Who has a range begins when all in front of the range's kernel have ended, and behind that
    // one nobody else writes to the cache: what was attended to before may be read now.
    const bool has_range = p_.range != nullptr;
    const int guess = guessed_base();
    if (has_range) {
      fetch(guess, p_.capacity);
    }
    prefetch_arguments();
    wait_for_inputs();
    const int64_t position = *p_.position;
    if (!has_range) {
      fetch(guess, p_.capacity);
    }
    const int4 range = read_range();
    take_in();
    position_ = position >= 0 && position < p_.capacity ? static_cast<int>(position) : -1;
    begin_ = range.x;
    end_ = range.y;
    mask_ = range.z != 0 ? nullptr : p_.mask;
    __syncthreads();
    const int first = begin_ / kTokenChunk;
    const int chunks = chunks_of(begin_, end_);
    const int sharers = sharers_of(chunks);
    if (order_ == 0 && warp_ == 0 && (position_ < begin_ || position_ >= end_)) {
      write_unread();
    }
    if (order_ < sharers) {
      attend(first, chunks, sharers, guess);
    }
    wait_for_cluster();
    put_together(sharers);
  }

 private:
  __device__ static void floats_of(const uint4& eight, float (&ret)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = HalfPair<T>::floats(word_of(eight, i));
      ret[2 * i] = pair.x;
      ret[2 * i + 1] = pair.y;
    }
  }

  /// Chunks with positions of [begin, end).
  __device__ static int chunks_of(int begin, int end) {
    return end > begin ? (end - 1) / kTokenChunk + 1 - begin / kTokenChunk : 0;
  }

  /// Blocks that have some of so many chunks; one also of none, which writes zeros.
  __device__ int sharers_of(int chunks) const { return max(min(chunks, p_.sharers), 1); }

  /// The mask's range, or all.
  __device__ int4 read_range() const {
    return p_.range != nullptr ? *reinterpret_cast<const int4*>(p_.range)
                               : make_int4(0, p_.capacity, 1, 0);
  }

  /// The first of this warp's first positions, before one may know: by the range that is in memory,
  /// which may be of another token. Begins to bring these positions into the GPU's cache, and those
  /// that come next.
  __device__ int guessed_base() const {
    const int4 range = p_.range != nullptr ? load_hint(reinterpret_cast<const int4*>(p_.range))
                                           : make_int4(0, p_.capacity, 1, 0);
    const int begin = min(max(range.x, 0), p_.capacity);
    const int end = min(range.y, p_.capacity);
    const int sharers = sharers_of(chunks_of(begin, end));
    const int base = (begin / kTokenChunk + order_) * kTokenChunk + warp_ * kRows;
    if (order_ >= sharers || base >= end) {
      return kNoBase;
    }
    prefetch(base);
    if (base + sharers * kTokenChunk < end) {
      prefetch(base + sharers * kTokenChunk);
    }
    return base;
  }

  /// Begins to bring keys and values of 16 positions into the GPU's cache.
  __device__ void prefetch(int base) const {
    const int row = base + lane_ % kRows;
    if (row < p_.capacity) {
      const bool is_key = lane_ < kRows;
      const T* const from = is_key
                                ? row_of(at(p_.keys, head_ * p_.keys_step), row, p_.keys_row)
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

  /// The token's own row of the cache, by one warp. All take what they need of it from shared
  /// memory.
  __device__ void write_cache() const {
    const bool is_key = lane_ < kLanes;
    if (lane_ < 2 * kLanes) {
      const T* const to =
          is_key ? row_of(at(p_.keys, head_ * p_.keys_step), position_, p_.keys_row)
                 : row_of(at(p_.values, head_ * p_.values_step), position_, p_.values_row);
      const int place = lane_ % kLanes;
      reinterpret_cast<uint4*>(const_cast<T*>(to))[place] =
          is_key ? shared_.key[place] : shared_.value[place];
    }
  }

  /// A position that is not attended to; none that is outside of the cache.
  __device__ void write_unread() const {
    if (position_ >= 0) {
      write_cache();
    } else if (lane_ == 0 && p_.fault != nullptr) {
      *p_.fault = kFaultIndex;
    }
  }

  /// The position of the 16 whose value is the `i`-th of four that a lane has.
  __device__ int row_of_value(int i) const { return i / 2 * 8 + lane_ % 4 * 2 + i % 2; }

  /// Sets out to fetch keys and values of 16 positions, if they begin before `end`.
  __device__ void fetch(int base, int end) {
    fetch_keys(base, end);
    fetch_values(base, end);
  }

  /// Of each 32 elements of a key a lane has 8, of two positions.
  __device__ void fetch_keys(int base, int end) {
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
  }

  /// Of each 64 elements of a value a lane has 8, of four positions.
  __device__ void fetch_values(int base, int end) {
    if (base < 0 || base >= end) {
      return;
    }
    const T* const values = at(p_.values, head_ * p_.values_step + lane_ / 4 * 8);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const T* const from = row_of(values, min(base + row_of_value(i), end - 1), p_.values_row);
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        values_[i][run] = *reinterpret_cast<const uint4*>(from + run * 64);
      }
    }
  }

  /// Puts the token's own key and value among the 16, and into the cache: who reads them writes
  /// them.
  __device__ void put_own(int base) {
    const int own = position_ - base;
    if (own < 0 || own >= kRows) {
      return;
    }
    write_cache();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const uint4 key = shared_.key[part * 4 + lane_ % 4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        keys_[part][half] = own == lane_ / 4 + half * 8 ? key : keys_[part][half];
      }
    }
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const uint4 value = shared_.value[run * 8 + lane_ / 4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values_[i][run] = own == row_of_value(i) ? value : values_[i][run];
      }
    }
  }

  /// A row of a cache, for which one instruction is enough.
  __device__ static const T* row_of(const T* cache, int row, int32_t step) {
    const uint32_t nbytes = static_cast<uint32_t>(step) * sizeof(T);
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(cache) +
                                      static_cast<uint64_t>(static_cast<uint32_t>(row)) * nbytes);
  }

  /// `fetched`: the first of the positions that are on their way. What comes next is fetched as
  /// soon as there are registers for it.
  __device__ void attend(int first, int chunks, int sharers, int fetched) {
    float most = kNone;
    float weight = 0.0f;
    float sums[kRuns * 4][4] = {};
    int base = (first + order_) * kTokenChunk + warp_ * kRows;
    int chunk = order_;
    if (base != fetched) {  // once more without anything, for what comes then
      base -= sharers * kTokenChunk;
      chunk -= sharers;
    }
#pragma unroll 1
    for (; chunk < chunks; chunk += sharers) {
      const int next = base + sharers * kTokenChunk;
      const bool is_any = chunk >= 0 && base < end_ && base + kRows > begin_;
      float scores[4];
      if (is_any) {
        put_own(base);
        multiply(scores);
      }
      fetch_keys(next, end_);
      if (is_any) {
        uint32_t weights[2];
        const float before = weigh(base, scores, most, weight, weights);
        add_values(before, weights, sums);
      }
      fetch_values(next, end_);
      base = next;
    }
    keep(most, weight, sums);
  }

  /// Scores of head lane / 4, of the positions of `row_of_value`.
  __device__ void multiply(float (&scores)[4]) const {
    float found[2][4] = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const uint4 query = shared_.query[lane_ / 4][part * 4 + lane_ % 4];
      const uint32_t first[4] = {query.x, 0, query.y, 0};  // of 16 rows there are 8
      const uint32_t second[4] = {query.z, 0, query.w, 0};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4& key = keys_[part][half];
        multiply_tile<T>(found[half], first, key.x, key.y);
        multiply_tile<T>(found[half], second, key.z, key.w);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[i] = found[i / 2][i % 2];
    }
  }

  /// Scores become weights, relative to the head's maximum so far; `weight` is the sum of a lane's.
  /// Returns the factor for what was found before.
  __device__ float weigh(int base, float (&scores)[4], float& most, float& weight,
                         uint32_t (&weights)[2]) const {
    float highest = most;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = base + row_of_value(i);
      const bool is_in =
          position >= begin_ && position < end_ && (mask_ == nullptr || mask_[position]);
      scores[i] = is_in ? scores[i] * (p_.scale * kLog2E) : kNone;
      highest = fmaxf(highest, scores[i]);
    }
#pragma unroll
    for (int reach = 1; reach < 4; reach *= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(kAllLanes, highest, reach));
    }
    float found[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      found[i] = scores[i] > kNone ? exp2f(scores[i] - highest) : 0.0f;
    }
    const float before = exp2f(most - highest);
    most = highest;
    weight *= before;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      weights[i] = HalfPair<T>::of(found[2 * i], found[2 * i + 1]);
      const float2 rounded = HalfPair<T>::floats(weights[i]);
      weight += rounded.x + rounded.y;
    }
    return before;
  }

  /// Adds values times weights to what there was. Of each 16 elements a lane has sums of two, of
  /// heads lane % 4 * 2 and the next one.
  __device__ void add_values(float before, const uint32_t (&weights)[2],
                             float (&sums)[kRuns * 4][4]) const {
    const float factors[2] = {__shfl_sync(kAllLanes, before, lane_ % 4 * 8),
                              __shfl_sync(kAllLanes, before, lane_ % 4 * 8 + 4)};
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t words[4];
#pragma unroll
        for (int row = 0; row < 4; ++row) {
          words[row] = word_of(values_[row][run], i);
        }
        const uint32_t pairs[4] = {
            __byte_perm(words[0], words[1], 0x5410), __byte_perm(words[0], words[1], 0x7632),
            __byte_perm(words[2], words[3], 0x5410), __byte_perm(words[2], words[3], 0x7632)};
        float (&sum)[4] = sums[run * 4 + i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sum[j] *= factors[j % 2];
        }
        multiply_tile<T>(sum, pairs, weights[0], weights[1]);
      }
    }
  }

  /// What this warp found, in shared memory.
  __device__ void keep(float most, float weight, const float (&sums)[kRuns * 4][4]) {
#pragma unroll
    for (int reach = 1; reach < 4; reach *= 2) {
      weight += __shfl_xor_sync(kAllLanes, weight, reach);
    }
    if (lane_ % 4 == 0) {
      float* const found = shared_.found[warp_][lane_ / 4];
      found[SIZE] = weight;
      found[SIZE + 1] = most;
    }
#pragma unroll
    for (int head = 0; head < 2; ++head) {
      float* const found = shared_.found[warp_][lane_ % 4 * 2 + head];
#pragma unroll
      for (int i = 0; i < kRuns * 4; i += 2) {
        *reinterpret_cast<float4*>(found + i / 4 * 64 + lane_ / 4 * 8 + i % 4 * 2) =
            make_float4(sums[i][head], sums[i][head + 2], sums[i + 1][head], sums[i + 1][head + 2]);
      }
    }
  }

  /// Four elements' sums over some parts, each relative to the maximum of its scores.
  __device__ Found sum_over(int begin, int count, int head, int element) const {
    Found all{make_float4(0, 0, 0, 0), 0.0f, kNone};
    const int end = begin + count;
#pragma unroll 1
    for (int first = begin; first < end; first += kTogether) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        all.most =
            first + i < end ? fmaxf(all.most, shared_.found[first + i][head][SIZE + 1]) : all.most;
      }
    }
#pragma unroll 1
    for (int first = begin; first < end; first += kTogether) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const float* const part = shared_.found[first + i][head];
        const float factor = exp2f(part[SIZE + 1] - all.most);
        const float4 sums = *reinterpret_cast<const float4*>(part + element);
        if (first + i < end) {
          all.sums.x += factor * sums.x;
          all.sums.y += factor * sums.y;
          all.sums.z += factor * sums.z;
          all.sums.w += factor * sums.w;
          all.weight += factor * part[SIZE];
        }
      }
    }
    return all;
  }

  /// What the warps found becomes the result, or goes to the first block, which puts all blocks'
  /// together. A thread has four elements of a head.
  __device__ void put_together(int sharers) {
    const int head = static_cast<int>(threadIdx.x) / (SIZE / 4);
    const int element = static_cast<int>(threadIdx.x) % (SIZE / 4) * 4;
    const bool has_elements = head < heads_;
    __syncthreads();
    if (has_elements && order_ < sharers) {
      const Found all = sum_over(0, kTokenWarps, head, element);
      if (sharers == 1) {
        write_elements(head, element, all);
      } else {
        float* const to = shared_of_block(&shared_.found[kTokenWarps + order_][head][0], 0);
        *reinterpret_cast<float4*>(to + element) = all.sums;
        if (element == 0) {
          *reinterpret_cast<float2*>(to + SIZE) = make_float2(all.weight, all.most);
        }
      }
    }
    if (sharers > 1) {
      meet_cluster();
      if (order_ == 0 && has_elements) {
        write_elements(head, element, sum_over(kTokenWarps, sharers, head, element));
      }
    }
  }

  __device__ void write_elements(int head, int element, const Found& all) const {
    const float factor = all.weight > 0.0f ? __fdividef(1.0f, all.weight) : 0.0f;
    *reinterpret_cast<uint2*>(static_cast<T*>(p_.out) + (query_head_ + head) * SIZE + element) =
        make_uint2(HalfPair<T>::of(all.sums.x * factor, all.sums.y * factor),
                   HalfPair<T>::of(all.sums.z * factor, all.sums.w * factor));
  }

  const TokenAttention& p_;
  Shared& shared_;
  const int lane_;
  const int warp_;
  int order_;  ///< in the cluster: which of the chunks is this block's first
  int head_;   ///< of the cache
  int query_head_;
  int heads_;
  int position_ = 0;  ///< of the token; negative for one outside of the cache
  int begin_ = 0;     ///< of the positions that are attended to
  int end_ = 0;
  const bool* mask_ = nullptr;  ///< null where all between are
  uint4 keys_[kParts][2];       ///< on their way
  uint4 values_[4][kRuns];
};

}  // namespace

/// Of heads of 128, few enough registers for a block to have room beside one of a product with
/// small weights; nothing spills.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
#define AOTIP_TOKEN_BOUNDS(SIZE) __maxnreg__(SIZE == 64 ? 128 : 152)
#else
#define AOTIP_TOKEN_BOUNDS(SIZE) __launch_bounds__(kTokenWarps * 32)
#endif

#define AOTIP_TOKEN_ATTENTION(KIND, TYPE, SIZE)                                          \
  extern "C" __global__ void AOTIP_TOKEN_BOUNDS(SIZE)                                    \
      aotip_token_attention_##KIND##_##SIZE(const TokenAttention p) {                    \
    static_assert(AttentionOfToken<TYPE, SIZE>::kNbytes <= kTokenAttentionNbytes<SIZE>); \
    AttentionOfToken<TYPE, SIZE>(p, launched_memory()).run();                            \
  }

AOTIP_TOKEN_ATTENTION(bf16, __nv_bfloat16, 64)
AOTIP_TOKEN_ATTENTION(bf16, __nv_bfloat16, 128)
AOTIP_TOKEN_ATTENTION(f16, __half, 64)
AOTIP_TOKEN_ATTENTION(f16, __half, 128)
