#pragma once

/// What kernels of products with weights of 4 and 8 bits are told. Read by the host code and by the
/// kernels; docs/small-weights.md has the layout.

#include <cstdint>

namespace aoti_plugins::cuda {

/// Rows of the weight in a tile, one for each four lanes of a warp.
inline constexpr int32_t kWeightTileRows = 8;

/// Weights along k of one row in a tile: a lane has 16 bytes of it.
inline constexpr int32_t kWeightTileDepth4 = 128;
inline constexpr int32_t kWeightTileDepth8 = 64;

/// Bytes of a tile, of any number of bits.
inline constexpr int32_t kWeightTileNbytes = 512;

/// The `group_shift` of a weight with one group for each row.
inline constexpr int32_t kGroupOfRow = 31;

/// The most warps of a block, which share the sum.
inline constexpr int32_t kProductWarps = 16;

/// What a code is, and what is known of a group beside its scale. A whole number is 0 to 15 of 4
/// bits, -128 to 127 of 8.
enum GroupZero : int32_t {
  kNoZero,     ///< weight = (code - 8) * scale of 4 bits, code * scale of 8
  kZeroPoint,  ///< weight = (code - zero) * scale
  kAddedZero,  ///< weight = (code - 8) * scale + zero of 4 bits, code * scale + zero of 8
  kFloat,      ///< weight = code * scale * zero, an E2M1 of 4 bits, an E4M3 of 8
  kFloatE5M2,  ///< the same of an E5M2
};

/// Whether codes are floats. Scales are float32 then where a row has one; else a byte each, of 32
/// powers of two and of 16 E4M3, and a zero is a float32 of the row, or missing.
constexpr bool is_float(int64_t kind) {
  return kind == kFloat || kind == kFloatE5M2;
}

/// Floats that have one scale, where a row has several.
constexpr int32_t group_of_floats(int64_t bits) {
  return bits == 4 ? 16 : 32;
}

/// A product [m, k] times [n, k] transposed. Steps are in elements.
struct SmallWeightProduct {
  const void* x;       ///< rows of 16-bit floats, aligned to 16 bytes
  const void* weight;  ///< [n / 8, k / depth, 32, 16 bytes], k padded with anything
  const void* scale;   ///< as x, or float32; see `has_half_scale` and `is_float`
  const void* zero;    ///< as scale
  const void* bias;    ///< [n] as x, or null
  void* out;           ///< [m, n] as x
  int64_t x_step;      ///< from row to row, a multiple of 8
  int32_t scale_tile_step;
  int32_t scale_group_step;
  int32_t scale_row_step;
  int32_t m;
  int32_t n;
  int32_t k;            ///< a multiple of 8
  int32_t group_shift;  ///< a group has 2^this weights; or kGroupOfRow
  int32_t has_float_scale;
  /// Whether scales and zeros are float16 where x is bfloat16: kernels/streamed_row.cu alone has a
  /// kernel for such.
  int32_t has_half_scale;
  int32_t zero_kind;  ///< a GroupZero
  /// Of 4 bits, whether the weight is as PyTorch packs it: of every 32 weights along k, lane l has
  /// four pairs, from l % 4 * 2 on and 8 apart. k is a multiple of 128 then.
  int32_t is_tile_packed;
};

}  // namespace aoti_plugins::cuda
