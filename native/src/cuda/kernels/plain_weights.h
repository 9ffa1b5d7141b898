#pragma once

/// What kernels of products with weights of 4 to 8 bits in planes are told: as upstream's
/// partitioner stores them, row after row. Read by the host code and by the kernels;
/// docs/small-weights.md has the forms.

#include <cstdint>

namespace aoti_plugins::cuda {

/// Weights of a row with one step for the codes of their scales, and of their zeros.
inline constexpr int32_t kPlainStepDepth = 256;

/// Weights of a row that a lane has in one piece.
inline constexpr int32_t kPlainPieceDepth = 32;

/// Rows of the weight that are computed together.
inline constexpr int32_t kPlainTileRows = 16;

/// Warps of a block, which share the sum.
inline constexpr int32_t kPlainWarps = 8;

/// A product [m, k] times [n, k] transposed, bfloat16. All is row-major, without gaps; low and high
/// are aligned to 16 bytes, scale and zero to 8.
struct PlainProduct {
  const void* x;           ///< [m, k], aligned to 16 bytes
  const void* low;         ///< lowest four bits [n, k / 2], or all eight [n, k]
  const void* high;        ///< the others: [n, k / 8] of 5 bits, [n, k / 4] of 6
  const void* scale;       ///< [n, groups]: codes of 8 bits; of 8 bits bfloat16
  const void* scale_step;  ///< [n, k / 256] of float16
  const void* zero;        ///< [n, groups], codes of 8 bits; of 8 bits int8; none of 6
  const void* zero_step;   ///< [n, k / 256] of float16
  void* out;               ///< [m, n]
  int32_t m;
  int32_t n;
  int32_t k;            ///< a multiple of 256, of 8 bits of 32
  int32_t groups;       ///< of a row
  int32_t group_shift;  ///< a group has 2^this weights; 31: all of the row
  /// Bytes of scales, and of zeros, for 128 weights, if a row has whole steps; else 0.
  int32_t scale_nbytes;
  int32_t zero_nbytes;
  /// Which of these bytes go into the words that a lane uses, as __byte_perm takes them.
  uint32_t scale_order[2];
  uint32_t zero_order;
};

}  // namespace aoti_plugins::cuda
