// Products of one row with weights of 4 and 8 bits, on GPUs that copy to shared memory by
// themselves (compute capability 9.0), with what stands around them as in one_row.cu.
//
// A warp of its own fetches the block's rows of the weight into a ring, in runs of many kilobytes
// and long before the kernel in front has ended; nothing but the row's own way is left then. The
// other warps divide the row: each has every eighth chunk of 256, for all rows of the weight. It
// turns its chunks into integers of 16 bits with one power of two, as two digits of 8 bits, which
// integer tensor cores multiply with the codes: the digits are two columns, 16 rows of the weight
// the rows. Sums of a group are exact. The parts of all warps are put together at the end.
//
// Integers are as exact as 16-bit floats for any row: the step is at most 2^-15 of the largest of
// a chunk's elements, which is at most 16 times their root mean square.

#include "cuda/kernels/ring_of_codes.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// The lower two bytes of four words, by digit. The words are 128 too large, so that the upper
/// digit is rounded; the lower one is from -128 to 127.
__device__ void digits_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t& low,
                          uint32_t& high) {
  const uint32_t ab = __byte_perm(a, b, 0x5140);
  const uint32_t cd = __byte_perm(c, d, 0x5140);
  low = __byte_perm(ab, cd, 0x5410) ^ 0x80808080;
  high = __byte_perm(ab, cd, 0x7632);
}

/// Groups have 2^SHIFT weights, at most a chunk; or it is kGroupOfRow. HELD: the row has a chunk
/// for each warp at most, whose digits stay in registers. PRODUCT is a OneRowProduct, or an
/// ExpertProduct with groups. ZEROS: groups have zeros, which are added; these and scales are
/// float16. A zero times the sum of the row's group is a lane's of the four that share a row.
template <int BITS, typename T, int SHIFT, bool HELD, typename PRODUCT = OneRowProduct,
          bool ZEROS = false>
class StreamedRow : RingOfCodes<BITS, T, SHIFT, PRODUCT, ZEROS> {
  using Base = RingOfCodes<BITS, T, SHIFT, PRODUCT, ZEROS>;
  using Base::chunks_;
  using Base::full_;
  using Base::groups_;
  using Base::kByRow;
  using Base::kGroups;
  using Base::kOfExperts;
  using Base::kPlaces;
  using Base::lane_;
  using Base::p_;
  using Base::pieces_;
  using Base::product_;
  using Base::ring_;
  using Base::scale_step_;
  using Base::shape_;
  using Base::stage_step_;
  using Base::tile_step_;
  using Base::warp_;
  using typename Base::Around;
  using Code = BytesOfCode<BITS>;
  static constexpr int kParts = Code::kDepth / 32;        ///< of 32 weights in a tile
  static constexpr int kZeros = ZEROS ? kGroups / 4 : 1;  ///< of a chunk, for a lane
  using Scale = std::conditional_t<ZEROS, __half, T>;
  static_assert(!ZEROS || (kGroups % 4 == 0 && kGroups * 4 == kStreamedChunk / 8));
  static constexpr int kRuns = kByRow ? 1 : kGroups;  ///< sums of a chunk with one scale
  static constexpr int kRun = 8 / kRuns;              ///< parts of such a sum
  static constexpr int kTurns = kByRow ? 2 : 1;      ///< sums of it, so that none waits for another
  static constexpr int kLoads = HELD ? 1 : 4;        ///< chunks of the row at once
  static constexpr int kAtOnce = BITS == 4 ? 2 : 1;  ///< chunks of a warp, where a row has more
  static constexpr float kMost = 32639.0f;           ///< the largest integer of two digits
  static constexpr float kRounding = 12582912.0f;    ///< 1.5 * 2^23, whose last bit is worth 1

  /// What a lane has of a chunk of two tiles.
  struct Held {
    uint4 codes[2][kPlaces];
    uint32_t scale[2][kRuns];
    uint32_t zero[2][kZeros];
  };

  /// A lane's digits of a chunk of the row: of the upper digit in even columns, of the lower in
  /// odd.
  struct Digits {
    uint4 words[4];
    float unit;
    float sums[kZeros];  ///< of the elements of the lane's groups
  };

 public:
  __device__ StreamedRow(const PRODUCT& product, const StreamedShape& shape, char* memory)
      : Base(product, shape, memory) {
    memory += shape.stages * stage_step_;
    row_ = reinterpret_cast<uint4*>(memory);
    memory += chunks_ * kStreamedChunk * 2;
    units_ = reinterpret_cast<float*>(memory);
    memory += (chunks_ + 3) / 4 * 16;
    sums_ = reinterpret_cast<float*>(memory);
    this->share(memory + (ZEROS ? chunks_ * kGroups * 4 : 0));
  }

  __device__ void run() {
    this->begin(!kOfExperts);
    if (this->is_fetching()) {
      this->fill();
      return;
    }
    uint4 factors[kLoads];
    this->fetch_row(factors, p_.norm, warp_);
    Around around = this->wait_for_row();
    if constexpr (kOfExperts) {
      let_next_begin();  // it may read the experts' numbers then
    }
    float square = 0.0f;
    this->read_row(factors, square, [&](const float (&x)[8], int chunk) { divide(x, chunk); });
    __syncwarp();
    compute(around, square);
  }

 private:
  /// Puts the digits of a chunk of the row into shared memory.
  __device__ void divide(const float (&x)[8], int chunk) {
    if constexpr (ZEROS) {
      float sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      if (lane_ % 4 == 0) {
        sums_[chunk * kGroups + lane_ / 4] = sum;
      }
    }
    // Floats that are not negative are ordered as their bits are; what is no number is the largest.
    uint32_t bits[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      bits[i] = __float_as_uint(fabsf(x[i]));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      bits[i] = max(bits[i], bits[i + 4]);
    }
    const float most = __uint_as_float(
        __reduce_max_sync(kAllLanes, max(max(bits[0], bits[1]), max(bits[2], bits[3]))));
    const float inverse = most > 1e-30f ? __fdividef(kMost, most) : 0.0f;
    uint32_t words[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      words[i] = __float_as_uint(fmaf(x[Code::element(i)], inverse, kRounding)) + 128;
    }
    uint2 low;
    uint2 high;
    digits_of(words[0], words[1], words[2], words[3], low.x, high.x);
    digits_of(words[4], words[5], words[6], words[7], low.y, high.y);
    // [64 along k, digit, lane % 4, 32 along k], eight bytes each
    uint2* const to = reinterpret_cast<uint2*>(row_) +
                      (chunk * 32 + lane_ / 8 * 8 + lane_ % 4) * 2 + lane_ / 4 % 2;
    to[0] = high;
    to[8] = low;
    if (lane_ == 0) {
      units_[chunk] = most * (Code::kUnit / kMost) * weight_of(chunk);
    }
  }

  /// How much of the expert of a chunk comes into a sum.
  __device__ float weight_of(int chunk) const {
    if constexpr (kOfExperts) {
      return product_.factors != nullptr ? factor_of(product_, chunk / (chunks_ / product_.chosen))
                                         : 1.0f;
    } else {
      return 1.0f;
    }
  }

  __device__ void fetch_digits(Digits& digits, int chunk) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      digits.words[i] = row_[chunk * 32 + i * 8 + lane_ / 4 % 2 * 4 + lane_ % 4];
    }
    digits.unit = units_[chunk];
    if constexpr (ZEROS) {
      digits.unit = lane_ % 4 == 0 ? digits.unit : 0.0f;  // sums are added up over the four lanes
#pragma unroll
      for (int i = 0; i < kZeros; ++i) {
        digits.sums[i] = sums_[chunk * kGroups + lane_ % 4 * kZeros + i];
      }
    }
  }

  /// What a lane has of the `at`-th chunk of a stage, which is the `chunk`-th of the row.
  __device__ void fetch(Held& held, int stage, int at, int chunk) const {
    const char* const from = ring_ + stage * stage_step_;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4* const codes =
          reinterpret_cast<const uint4*>(from + half * tile_step_) + at * kPlaces * 32 + lane_;
#pragma unroll
      for (int i = 0; i < kPlaces; ++i) {
        held.codes[half][i] = codes[i * 32];
      }
      if (!kByRow) {
        const uint16_t* const scales =
            reinterpret_cast<const uint16_t*>(from + 2 * tile_step_ + half * scale_step_) +
            lane_ / 4;
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
          // Behind the row, where its digits are zeros, any scale that there is.
          const int group = min(chunk * kGroups + run, groups_ - 1) - (chunk - at) * kGroups;
          held.scale[half][run] = scales[group * kWeightTileRows];
        }
      }
      if constexpr (ZEROS) {
        const uint16_t* const zeros =
            reinterpret_cast<const uint16_t*>(from + 2 * tile_step_ + (2 + half) * scale_step_) +
            lane_ / 4;
#pragma unroll
        for (int i = 0; i < kZeros; ++i) {
          const int of_chunk = lane_ % 4 * kZeros + i;
          const int group = min(chunk * kGroups + of_chunk, groups_ - 1) - (chunk - at) * kGroups;
          held.zero[half][i] = zeros[group * kWeightTileRows];
        }
      }
    }
  }

  /// Adds up chunks of a pair each; COUNT at once, as one alone would wait for itself.
  template <int COUNT>
  __device__ static void multiply(const Held (&held)[COUNT], const Digits* const (&digits)[COUNT],
                                  float (&sums)[COUNT][2]) {
    int32_t found[COUNT][kRuns][kTurns][4] = {};
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        const int part = run * kRun + k;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
          uint32_t a[4];
          Code::of(held[i].codes[0][part / kParts], part % kParts, a[0], a[2]);
          Code::of(held[i].codes[1][part / kParts], part % kParts, a[1], a[3]);
          const uint4& words = digits[i]->words[part / 2];
          multiply_tile_of_bytes(found[i][run][k % kTurns], a, part % 2 ? words.z : words.x,
                                 part % 2 ? words.w : words.y);
        }
      }
    }
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float one =
              kByRow ? digits[i]->unit : digits[i]->unit * number(held[i].scale[half][run]);
          int32_t upper = 0;
          int32_t lower = 0;
#pragma unroll
          for (int turn = 0; turn < kTurns; ++turn) {
            upper += found[i][run][turn][2 * half];
            lower += found[i][run][turn][2 * half + 1];
          }
          sums[i][half] += one * static_cast<float>(upper * 256 + lower);
        }
      }
    }
    if constexpr (ZEROS) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int j = 0; j < kZeros; ++j) {
            sums[i][half] += digits[i]->sums[j] * number(held[i].zero[half][j]);
          }
        }
      }
    }
  }

  __device__ static float number(uint32_t bits) { return HalfPair<Scale>::floats(bits).x; }

  __device__ void keep(int slot, float (&sums)[2]) {
    if constexpr (ZEROS) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sums[half] += __shfl_xor_sync(kAllLanes, sums[half], 1);
        sums[half] += __shfl_xor_sync(kAllLanes, sums[half], 2);
      }
    }
    Base::keep(slot, sums);
  }

  __device__ void compute(Around& around, float square) {
    Digits digits = {};  // zeros, where there are fewer chunks than warps
    if (HELD && warp_ < chunks_) {
      fetch_digits(digits, warp_);
    }
    int stage = 0;
    uint32_t parity = 0;
    this->in_shares(around, square, [&](int first, int last) {
      if constexpr (HELD) {
        compute_held(digits, first, last, stage, parity);
      } else {
        compute_pieces(first, last, stage, parity);
      }
    });
  }

  /// Two pairs at once.
  __device__ void compute_held(const Digits& digits, int first, int last, int& stage,
                               uint32_t& parity) {
    int pair = first;
#pragma unroll 1
    for (; pair + 2 <= last; pair += 2) {
      Held held[2];
      const int before = stage;
      take(held[0], stage, parity);
      const bool is_alone = shape_.stages == 1;
      if (is_alone) {
        this->leave(before);
      }
      const int here = stage;
      take(held[1], stage, parity);
      float sums[2][2] = {};
      const Digits* const all[2] = {&digits, &digits};
      multiply<2>(held, all, sums);
      if (!is_alone) {
        this->leave(before);
      }
      this->leave(here);
      keep(pair - first, sums[0]);
      keep(pair - first + 1, sums[1]);
    }
    if (pair < last) {
      Held held[1];
      const int here = stage;
      take(held[0], stage, parity);
      float sums[1][2] = {};
      const Digits* const all[1] = {&digits};
      multiply<1>(held, all, sums);
      this->leave(here);
      keep(pair - first, sums[0]);
    }
  }

  /// The warp's chunk of the pair that comes next.
  __device__ void take(Held& held, int& stage, uint32_t& parity) const {
    const int chunk = min(warp_, chunks_ - 1);
    wait_for_turn(&full_[stage], parity);
    fetch(held, stage, chunk, chunk);
    this->next(stage, parity);
  }

  /// A pair at a time, of 4 bits two of its chunks at once; of 8 a stage has one for each warp.
  __device__ void compute_pieces(int first, int last, int& stage, uint32_t& parity) {
#pragma unroll 1
    for (int pair = first; pair < last; ++pair) {
      float sums[kAtOnce][2] = {};
#pragma unroll 1
      for (int piece = 0; piece < pieces_; ++piece) {
        wait_for_turn(&full_[stage], parity);
        const int begin = piece * shape_.piece;
        const int count = min(shape_.piece, chunks_ - begin);
#pragma unroll 1
        for (int at = warp_; at < count; at += kAtOnce * kStreamedWarps) {
          multiply_chunks(stage, at, count, begin, sums);
        }
        this->leave(stage);
        this->next(stage, parity);
      }
#pragma unroll
      for (int i = 1; i < kAtOnce; ++i) {
        sums[0][0] += sums[i][0];
        sums[0][1] += sums[i][1];
      }
      keep(pair - first, sums[0]);
    }
  }

  /// Adds up the `at`-th chunk of a stage, and those of as many warps behind it each.
  __device__ void multiply_chunks(int stage, int at, int count, int begin,
                                  float (&sums)[kAtOnce][2]) const {
    Held held[kAtOnce];
    Digits own[kAtOnce];
    const Digits* all[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int there = at + i * kStreamedWarps < count ? at + i * kStreamedWarps : at;
      fetch(held[i], stage, there, begin + there);
      fetch_digits(own[i], begin + there);
      if (i > 0 && there == at) {
        own[i].unit = 0.0f;
#pragma unroll
        for (float& sum : own[i].sums) {
          sum = 0.0f;
        }
      }
      all[i] = &own[i];
    }
    multiply<kAtOnce>(held, all, sums);
  }

  uint4* row_;    ///< [chunks, 32]: digits
  float* units_;  ///< [chunks]: what a sum of digits is multiplied with
  float* sums_;   ///< [chunks, groups of one]: of elements; with zeros only
};

}  // namespace

#define AOTIP_STREAMED_ROW(BITS, KIND, TYPE, SHIFT, HELD)                                     \
  AOTIP_STREAMED_KERNEL(aotip_streamed_row_##BITS##_##KIND##_##SHIFT##_##HELD, OneRowProduct, \
                        StreamedRow<BITS, TYPE, SHIFT, HELD != 0>)

#define AOTIP_STREAMED_ZEROS(SHIFT, HELD)                                            \
  AOTIP_STREAMED_KERNEL(aotip_streamed_zeros_4_bf16_##SHIFT##_##HELD, OneRowProduct, \
                        StreamedRow<4, __nv_bfloat16, SHIFT, HELD != 0, OneRowProduct, true>)

#define AOTIP_STREAMED_EXPERTS(SHIFT, HELD)                                            \
  AOTIP_STREAMED_KERNEL(aotip_streamed_experts_4_bf16_##SHIFT##_##HELD, ExpertProduct, \
                        StreamedRow<4, __nv_bfloat16, SHIFT, HELD != 0, ExpertProduct>)

#define AOTIP_STREAMED_ROWS(BITS, SHIFT)                  \
  AOTIP_STREAMED_ROW(BITS, bf16, __nv_bfloat16, SHIFT, 0) \
  AOTIP_STREAMED_ROW(BITS, bf16, __nv_bfloat16, SHIFT, 1)

AOTIP_STREAMED_ROWS(4, 5)
AOTIP_STREAMED_ROWS(4, 7)
AOTIP_STREAMED_ROWS(8, 31)

// Groups of 64, and zeros, are for GPUs of 9.0 alone, to save room in the image: others have the
// kernel for any weight there (one_row.cu), and programs for them float32 in place of float16.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
AOTIP_STREAMED_ROWS(4, 6)
AOTIP_STREAMED_ZEROS(5, 0)
AOTIP_STREAMED_ZEROS(5, 1)
#endif

AOTIP_STREAMED_EXPERTS(5, 0)
AOTIP_STREAMED_EXPERTS(5, 1)
AOTIP_STREAMED_EXPERTS(7, 0)
AOTIP_STREAMED_EXPERTS(7, 1)
