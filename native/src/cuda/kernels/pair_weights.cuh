#pragma once

// How pairs of codes of 4 and 8 bits become pairs of weights for tensor cores, with few
// instructions that are not the tensor cores'.
//
// Of 4 bits the pairs of a word lie 4 bits apart, of 8 bits 8 apart; of 8 bits a code is 128 too
// small until its first bit is turned. A pair is cut out, and that makes two floats of it; a fused
// multiply and add takes off the middle, and where it can it multiplies by the scale as well. Lanes
// exchange codes first, as a tile has not the pairs that a product wants.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/warp.cuh"

namespace aoti_plugins::cuda {

/// Floats that are cut out of codes.
template <typename T>
struct CutOut;

/// The last eight bits of a bfloat16 whose others are zeros are its value in units of 2^-133. That
/// is too small for sums to be whole, so factors are large, and sums are multiplied at the end.
template <>
struct CutOut<__nv_bfloat16> {
  static constexpr uint32_t kOthers = 0;
  static constexpr float kCode = 0x1p-6f;          ///< what `kFactor` makes of one code
  static constexpr uint32_t kFactor = 0x7f007f00;  ///< 2^127
  static constexpr uint32_t kFactor4Above =
      0x7d007d00;                                   ///< 2^123, of 4 bits that lie 4 bits higher
  static constexpr uint32_t kMiddle4 = 0xbe00be00;  ///< -8 codes
  static constexpr uint32_t kMiddle4Above = kMiddle4;
  static constexpr uint32_t kMiddle8 = 0xc000c000;  ///< -128 codes

  /// Whether one fused multiply and add makes a weight, by a scale times `kScale`; it is 1 /
  /// `kWhole` of what it should be. Right for scales below 2^31.
  static constexpr bool kIsScaledAtOnce = true;
  static constexpr float kScale = 0x1p97f;
  static constexpr float kWhole = 0x1p36f;

  /// Of codes that lie 4 bits higher.
  __device__ static uint32_t factor_above(uint32_t factor) {
    return fused_pairs<__nv_bfloat16>(factor, 0x3d803d80, 0);
  }
  __device__ static uint32_t added_above(uint32_t added) { return added; }
};

/// Eight bits behind 1024's first ones are 1024 and their value.
template <>
struct CutOut<__half> {
  static constexpr uint32_t kOthers = 0x64006400;
  static constexpr float kCode = 1.0f;
  static constexpr uint32_t kFactor = 0x3c003c00;
  static constexpr uint32_t kFactor4Above = 0x2c002c00;  ///< 1/16
  static constexpr uint32_t kMiddle4 = 0xe408e408;       ///< -(1024 + 8)
  static constexpr uint32_t kMiddle4Above = 0xd480d480;  ///< -(1024 / 16 + 8)
  static constexpr uint32_t kMiddle8 = 0xe480e480;       ///< -(1024 + 128)
  static constexpr bool kIsScaledAtOnce = false;
  static constexpr float kScale = 1.0f;
  static constexpr float kWhole = 1.0f;

  __device__ static uint32_t factor_above(uint32_t factor) {
    return fused_pairs<__half>(factor, kFactor4Above, 0);
  }
  __device__ static uint32_t added_above(uint32_t added) {
    return fused_pairs<__half>(added, kFactor, 0x63806380);  // 1024 - 1024 / 16
  }
};

/// Four pairs of weights at a time, of codes of BITS bits: of one word of 4 bits, two of 8.
template <int BITS, typename T>
class PairWeights {
 public:
  static constexpr bool kIsFloat = false;

  /// `has_groups`: a row has more than one scale, or zeros. Without, sums are multiplied by it.
  __device__ PairWeights(int32_t zero_kind, bool has_groups)
      : zero_kind_(zero_kind),
        has_groups_(has_groups || zero_kind != kNoZero),
        is_at_once_(!has_groups_ || (Cut::kIsScaledAtOnce && zero_kind == kNoZero)) {}

  __device__ bool has_groups() const { return has_groups_; }

  /// What sums are to be multiplied by; `scale` is the row's.
  __device__ float whole(float scale) const {
    return !has_groups_ ? scale / Cut::kCode : is_at_once_ ? Cut::kWhole : 1.0f;
  }

  /// A factor and, above it, what is added, where there are no groups.
  __device__ static uint32_t of_row() { return (Cut::kFactor & 0xffff) | (kMiddle & 0xffff0000); }

  /// The same of a group.
  __device__ uint32_t of_group(float scale, float zero) const {
    if (is_at_once_) {
      return HalfPair<T>::of(scale * Cut::kScale, scale * (-kMiddleCode / Cut::kWhole));
    }
    const float added = zero_kind_ == kZeroPoint
                            ? ((BITS == 4 ? kMiddleCode : 0.0f) - zero) * Cut::kCode
                        : zero_kind_ == kAddedZero ? zero
                                                   : 0.0f;
    return HalfPair<T>::of(scale / Cut::kCode, added);
  }

  /// Of each product of 16 along k, the first pair and the second.
  __device__ static void cut_out(uint32_t first, uint32_t second, uint32_t (&pairs)[4]) {
    if constexpr (BITS == 4) {
      pairs[0] = masked_xor<0x000f000f>(first, Cut::kOthers);
      pairs[1] = masked_xor<0x00f000f0>(first, Cut::kOthers);
      pairs[2] = masked_xor<0x000f000f>(first >> 8, Cut::kOthers);
      pairs[3] = masked_xor<0x00f000f0>(first >> 8, Cut::kOthers);
    } else {
      constexpr uint32_t kTurned = Cut::kOthers | 0x00800080;
      pairs[0] = masked_xor<0x00ff00ff>(first, kTurned);
      pairs[1] = masked_xor<0x00ff00ff>(first >> 8, kTurned);
      pairs[2] = masked_xor<0x00ff00ff>(second, kTurned);
      pairs[3] = masked_xor<0x00ff00ff>(second >> 8, kTurned);
    }
  }

  /// `factor` and `added` are two of the halves of `of_group` each, for each of the tiles.
  template <int TILES>
  __device__ void make(uint32_t (&pairs)[TILES][4], const uint32_t (&factor)[TILES],
                       const uint32_t (&added)[TILES]) const {
    if (is_at_once_) {
#pragma unroll
      for (int t = 0; t < TILES; ++t) {
        scale(pairs[t], factor[t], Cut::factor_above(factor[t]), added[t],
              Cut::added_above(added[t]));
      }
      return;
    }
    const bool is_point = zero_kind_ == kZeroPoint;
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      scale(pairs[t], Cut::kFactor, Cut::kFactor4Above, kMiddle, Cut::kMiddle4Above);
      if (is_point) {
        scale(pairs[t], HalfPair<T>::kOnes, HalfPair<T>::kOnes, added[t], added[t]);
      }
      const uint32_t zero = is_point ? 0 : added[t];
      scale(pairs[t], factor[t], factor[t], zero, zero);
    }
  }

 private:
  using Cut = CutOut<T>;
  static constexpr float kMiddleCode = BITS == 4 ? 8.0f : 128.0f;
  static constexpr uint32_t kMiddle = BITS == 4 ? Cut::kMiddle4 : Cut::kMiddle8;

  /// Of 4 bits every other pair lies 4 bits higher.
  __device__ static void scale(uint32_t (&pairs)[4], uint32_t factor, uint32_t factor_above,
                               uint32_t added, uint32_t added_above) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool is_above = BITS == 4 && i % 2 == 1;
      pairs[i] = fused_pairs<T>(pairs[i], is_above ? factor_above : factor,
                                is_above ? added_above : added);
    }
  }

  const int32_t zero_kind_;
  const bool has_groups_;
  const bool is_at_once_;
};

/// Four lanes have eight weights in a row each, and get pair `lane % 4` of each of the four: what a
/// lane has of a product's first factor.
template <int BITS>
class PairExchange {
 public:
  /// `has_pairs`: the lanes have them, only 4 bits.
  __device__ PairExchange(uint32_t lane, bool has_pairs)
      : own_(kept(has_pairs  ? 0xffffffff
                  : lane & 1 ? 0xf0f0f0f0
                             : 0x0f0f0f0f,
                  lane)),
        turn_(kept(lane & 1 ? 28 : 4, lane)),
        bytes_(kept(BITS == 8   ? (lane & 1 ? 0x3726 : 0x5140)
                    : has_pairs ? 0x3210
                    : lane & 2  ? 0x3715
                                : 0x6240,
                    lane)),
        is_upper_(kept(lane & 2, lane) != 0) {}

  /// The pairs of 32 weights along k: of a word, or, of 8 bits, of two, where every other byte of a
  /// word is of one pair.
  __device__ void exchange(uint32_t (&words)[BITS / 4]) const {
    if constexpr (BITS == 4) {
      uint32_t& word = words[0];
      uint32_t other = __shfl_xor_sync(kAllLanes, word, 1);
      other = __funnelshift_l(other, other, turn_);
      word = (word & own_) | (other & ~own_);
      word = __byte_perm(word, __shfl_xor_sync(kAllLanes, word, 2), bytes_);
    } else {
      const uint32_t other = __shfl_xor_sync(kAllLanes, is_upper_ ? words[0] : words[1], 2);
      words[0] = is_upper_ ? other : words[0];
      words[1] = is_upper_ ? words[1] : other;
      words[0] = __byte_perm(words[0], __shfl_xor_sync(kAllLanes, words[0], 1), bytes_);
      words[1] = __byte_perm(words[1], __shfl_xor_sync(kAllLanes, words[1], 1), bytes_);
    }
  }

 private:
  /// The compiler would find such numbers anew each time.
  __device__ static uint32_t kept(uint32_t number, uint32_t lane) {
    return __shfl_sync(kAllLanes, number, lane);
  }

  const uint32_t own_;
  const uint32_t turn_;
  const uint32_t bytes_;
  const bool is_upper_;
};

}  // namespace aoti_plugins::cuda
