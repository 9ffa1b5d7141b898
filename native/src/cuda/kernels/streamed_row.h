#pragma once

/// What kernels of products of one row are told whose weights run through shared memory.

#include <cstdint>

#include "cuda/kernels/one_row.h"

namespace aoti_plugins::cuda {

/// Weights along k in a chunk: of 4 and 8 bits, a warp takes every eighth.
inline constexpr int32_t kStreamedChunk = 256;

/// Warps of a block that multiply; another one fetches.
inline constexpr int32_t kStreamedWarps = 8;

/// Rows of a weight that are computed together: a pair of tiles.
inline constexpr int32_t kStreamedRows = 2 * kWeightTileRows;

/// Chunks of a row in a stage of a weight of 16 bits.
inline constexpr int32_t kHalvesPiece = 4;

/// Bytes between the rows of such a stage.
inline constexpr int32_t kHalvesGap = 64;

/// How a block goes through its share of a weight: pairs of tiles, one after the other, of which a
/// ring of shared memory holds those that come next.
struct StreamedShape {
  int32_t stages;  ///< of the ring
  int32_t early;   ///< stages that are on their way at most while the row is not there
  int32_t piece;   ///< chunks along k in a stage
  int32_t pairs;   ///< of each block
  int32_t more;    ///< blocks that have one pair more
  int32_t kept;    ///< most pairs whose parts are kept until the warps put them together
};

}  // namespace aoti_plugins::cuda
