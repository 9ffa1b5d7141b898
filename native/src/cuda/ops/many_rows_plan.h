#pragma once

#include <cstdint>

#include "cuda/kernels/many_rows.h"
#include "cuda/kernels/small_weights.h"

namespace aoti_plugins::cuda {

/// A launch of kernels/many_rows.cu. Gate and residual of its shape are not set.
struct ManyRowsLaunch {
  ManyRowsTile tile;
  ManyRowsShape shape;
  int64_t blocks;  ///< 0: nothing to launch
  int64_t time;    ///< nanoseconds, as estimated
};

/// One launch, or a second one behind it for the tiles that would have filled a part of the
/// multiprocessors only.
struct ManyRowsPlan {
  ManyRowsLaunch first;
  ManyRowsLaunch second;
};

/// How a product is divided, by a table of times which was measured (benchmarks/cuda_many_rows.cu).
ManyRowsPlan plan_many_rows(const SmallWeightProduct& product, int64_t bits,
                            int32_t multiprocessors, bool has_clusters) noexcept;

}  // namespace aoti_plugins::cuda
