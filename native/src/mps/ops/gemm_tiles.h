#pragma once

#include <cstdint>
#include <string>

#include "mps/driver/kernel.h"

namespace aoti_plugins::mps {

/// How kernels/gemm.metal runs for one product.
struct GemmTiles {
  const Kernel* kernel;  ///< null, with a reason, when it does not build
  int64_t side;          ///< of a tile of the result
  Size group;            ///< threads of a group

  /// Groups for results [m, n] of a batch.
  Size groups(int64_t m, int64_t n, int64_t batch) const noexcept;
};

/// Large tiles are for results that fill most of one, and need simdgroup matrices; a target without
/// them takes the plain tiles, as small results do.
GemmTiles gemm_tiles(const std::string& defines, int64_t m, int64_t n, int64_t k) noexcept;

}  // namespace aoti_plugins::mps
