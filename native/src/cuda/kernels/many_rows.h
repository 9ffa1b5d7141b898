#pragma once

/// How many_rows.cu divides a product. Read by the host code and by the kernels.

#include <cstdint>

namespace aoti_plugins::cuda {

/// Threads of a block: two groups of four warps, which have 64 rows of the weight each.
inline constexpr int32_t kManyRowsThreads = 256;

/// Rows of the weight that a block has.
inline constexpr int32_t kManyRowsOfWeight = 128;

/// Elements between columns of a rounded result in shared memory, so that lanes write to different
/// banks.
inline constexpr int32_t kManyRowsStep = kManyRowsOfWeight + 8;

/// Elements along k of a place in the ring of shared memory: two slabs; a tile of the weight of 4
/// bits, or two of 8.
inline constexpr int32_t kPlaceDepth = 128;

/// Elements along k of a slab, which is what a line of shared memory holds of a row of x.
inline constexpr int32_t kSlabDepth = 64;

/// A block's tile: 128 rows of the weight, `columns` rows of x.
struct ManyRowsTile {
  int32_t columns;

  /// In shared memory, a ring.
  constexpr int32_t slabs() const { return columns == 64 ? 8 : 6; }

  /// Eights of columns that each of the blocks writes which divide k, the last ones fewer or none.
  constexpr int32_t own_eights(int32_t splits) const { return (columns / 8 + splits - 1) / splits; }

  /// Of the slabs, in whose place the sums are at the end.
  constexpr int32_t memory_nbytes() const { return slabs() * columns * kSlabDepth * 2; }

  /// Where k is divided: of sums, float32, which other blocks of the cluster read.
  constexpr int32_t sums_nbytes() const { return columns * kManyRowsOfWeight * 4; }

  /// Of the columns that a block writes, 16 bits; behind the sums, if there are any.
  constexpr int32_t rounded_nbytes(int32_t splits) const {
    return own_eights(splits) * 8 * kManyRowsStep * 2;
  }

  /// With a word for each slab, which says when it is full.
  constexpr int32_t shared_nbytes() const { return memory_nbytes() + slabs() * 8; }
};

/// Blocks are in order of the splits of k, of tiles of x, of tiles of the weight. With a gate
/// a block has 64 rows of each half of the weight.
struct ManyRowsShape {
  int32_t splits;        ///< blocks of a cluster, which divide k as well: up to 8
  int32_t x_tiles;       ///< tiles of x, one behind the other
  int32_t k_tiles;       ///< of `kPlaceDepth` along k, that a block has
  int32_t more_k_tiles;  ///< of the splits, those that have one more
  int32_t scaled_parts;  ///< bit i: part i of a place, 32 weights, has scales of its own
  int32_t own_eights;    ///< of a tile's rows of x, eights of those that a block writes
  int32_t gate;          ///< a Gate of one_row.h
  const void* residual;  ///< as the result, which it is added to, or null
  int32_t first_tile;    ///< of the weight, of the launch's first block
};

}  // namespace aoti_plugins::cuda
