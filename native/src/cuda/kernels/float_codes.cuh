#pragma once

// How pairs of floats of 8 and 4 bits become pairs of bfloat16 for tensor cores.
//
// Bits of exponent and fraction move to where a bfloat16 has the last ones of its own: the same
// number, but smaller by a power of two that only the form decides. One product with a group's
// scale, which is as much too large but for `kFloatWhole`, makes a weight of it; all of this is
// exact. The scales are powers of two (MX) or floats of 8 bits (NVFP4).

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/small_weights.h"

namespace aoti_plugins::cuda {

/// What sums are multiplied by, beside the factor of their row of the weight.
inline constexpr float kFloatWhole = 0x1p36f;

/// The factor of a row of the weight, where there are groups or none.
inline __device__ float float_row_factor(const SmallWeightProduct& p, int row) {
  const void* const from = p.group_shift == kGroupOfRow ? p.scale : p.zero;
  return from != nullptr ? static_cast<const float*>(from)[row] : 1.0f;
}

/// Floats of BITS bits: E2M1 of 4, and of 8 E4M3, or E5M2 where the weight says so. A pair has one
/// of them in the upper bits of each half of a word; what is below does not matter.
template <int BITS>
class FloatCodes {
 public:
  __device__ explicit FloatCodes(int32_t kind)
      : is_wide_(BITS == 8 && kind == kFloatE5M2),
        shift_(BITS == 4  ? 6
               : is_wide_ ? 3
                          : 4),
        kept_(BITS == 4  ? 0x01c001c0
              : is_wide_ ? 0x0fe00fe0
                         : 0x07f007f0) {}

  /// As bfloat16: 2^126 (E2M1), 2^120 (E4M3) or 2^112 (E5M2) times too small.
  __device__ uint32_t of(uint32_t pair) const {
    return ((pair >> shift_) & kept_) | (pair & 0x80008000);
  }

  /// What makes weights of them that are `kFloatWhole` times too small, without groups.
  __device__ uint32_t factor_of_row() const { return unit() << 7 | unit() << 23; }

  /// The same with scales: each half of `pair` has one in its upper byte.
  __device__ uint32_t factor_of(uint32_t pair) const {
    if constexpr (BITS == 8) {
      // The byte is an exponent as bfloat16 has it.
      return ((pair >> 1) & 0x7f807f80) + ((unit() - 127) << 7 | (unit() - 127) << 23);
    } else {
      const uint32_t scales = FloatCodes<8>(kFloat).of(pair);  // 2^120 times too small
      return fused_pairs<__nv_bfloat16>(fused_pairs<__nv_bfloat16>(scales, 0x7f007f00, 0),
                                        0x69006900, 0);  // 2^127, 2^83
    }
  }

  /// Pairs of `Codes<BITS>::pairs`: of a step of 16 along k.
  __device__ void pairs(const uint4& tile, int step, uint32_t& low, uint32_t& high) const {
    if constexpr (BITS == 4) {
      const uint32_t word = word_of(tile, step / 2);
      low = of(word << (step % 2 ? 4 : 12));
      high = of(word << (step % 2 ? 0 : 8));
    } else {
      const uint32_t word = word_of(tile, step);
      low = of(__byte_perm(word, 0, 0x1404));
      high = of(__byte_perm(word, 0, 0x3424));
    }
  }

  /// The `i`-th of a lane's eight floats of a part of 32, as `Codes<BITS>::value`.
  __device__ float value(const uint4& tile, int part, int i) const {
    const uint32_t word = word_of(tile, BITS == 4 ? part : part * 2 + i / 4);
    const uint32_t pair = BITS == 4 ? word << (12 - i / 2 * 4) >> i % 2 * 16
                                    : __byte_perm(word, 0, 0x4404 | i % 4 << 4);
    return HalfPair<__nv_bfloat16>::floats(of(pair)).x;
  }

 private:
  /// The exponent, as bfloat16 has it, of 2^36 less than a number is too small by.
  __device__ uint32_t unit() const { return BITS == 4 ? 127 + 90 : is_wide_ ? 127 + 76 : 127 + 84; }

  const bool is_wide_;
  const int32_t shift_;
  const uint32_t kept_;
};

/// Pairs of weights of many_rows.cu, as `PairWeights` has them of integers.
template <int BITS>
class FloatWeights {
 public:
  static constexpr bool kIsFloat = true;

  __device__ FloatWeights(int32_t kind, bool has_groups) : codes_(kind), has_groups_(has_groups) {}

  __device__ bool has_groups() const { return has_groups_; }

  /// What sums are to be multiplied by.
  __device__ static float whole(float factor_of_row) { return factor_of_row * kFloatWhole; }

  /// Factors of the first 16 of 32 weights and, above, of the others, where there are no groups.
  __device__ uint32_t of_row() const { return codes_.factor_of_row(); }

  /// The same of the scales in two bytes: of 32 weights, or, of 4 bits, of 16 and 16.
  __device__ uint32_t of_group(uint32_t scales) const {
    return codes_.factor_of(__byte_perm(scales, 0, BITS == 4 ? 0x1404 : 0x0404));
  }

  /// Of each product of 16 along k, the first pair and the second.
  __device__ void cut_out(uint32_t first, uint32_t second, uint32_t (&pairs)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = BITS == 4 ? codes_.of(first << (12 - i * 4))
                           : codes_.of((i < 2 ? first : second) << (i % 2 ? 0 : 8));
    }
  }

  template <int TILES>
  __device__ void make(uint32_t (&pairs)[TILES][4], const uint32_t (&first)[TILES],
                       const uint32_t (&second)[TILES]) const {
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pairs[t][i] = fused_pairs<__nv_bfloat16>(pairs[t][i], i < 2 ? first[t] : second[t], 0);
      }
    }
  }

 private:
  const FloatCodes<BITS> codes_;
  const bool has_groups_;
};

}  // namespace aoti_plugins::cuda
