#pragma once

/// How many_rows.cu divides a product. Read by the host code and by the kernels.

#include <cstdint>

namespace aoti_plugins::cuda {

/// Threads of a block: two groups of four warps, which have 64 rows of the weight each.
inline constexpr int32_t kManyRowsThreads = 256;

/// Rows of the weight that a block has.
inline constexpr int32_t kManyRowsOfWeight = 128;

/// Elements between columns of the sums in shared memory, so that lanes write to different banks.
inline constexpr int32_t kManyRowsSumsStep = kManyRowsOfWeight + 4;

/// Elements along k of a slab, which is what a line of shared memory holds of a row of x.
inline constexpr int32_t kSlabDepth = 64;

/// A block's tile: 128 rows of the weight, `columns` rows of x.
struct ManyRowsTile {
  int32_t columns;

  /// In shared memory, a ring.
  constexpr int32_t slabs() const { return columns == 64 ? 8 : 6; }

  /// Of the slabs, and at the end of the sums, float32, in their place.
  constexpr int32_t memory_nbytes() const {
    const int32_t slab_nbytes = slabs() * columns * kSlabDepth * 2;
    const int32_t sum_nbytes = columns * kManyRowsSumsStep * 4;
    return slab_nbytes > sum_nbytes ? slab_nbytes : sum_nbytes;
  }

  /// With two words for each slab, which say when it is full and when it is empty.
  constexpr int32_t shared_nbytes() const { return memory_nbytes() + slabs() * 16; }
};

/// Blocks are in order of the splits of k, of tiles of x, of tiles of the weight. With a gate
/// a block has 64 rows of each half of the weight.
struct ManyRowsShape {
  int32_t splits;        ///< blocks of a cluster, which divide k as well: up to 8
  int32_t x_tiles;       ///< tiles of x, one behind the other
  int32_t gate;          ///< a Gate of one_row.h
  const void* residual;  ///< as the result, which it is added to, or null
};

}  // namespace aoti_plugins::cuda
