#pragma once

/// What the kernels of scatter are told. Read by the host code and by kernels/scatter.cu.

#include <cstdint>

#include "ops/combine.h"

namespace aoti_plugins::cuda {

inline constexpr int32_t kScatterMaxDims = 15;

/// The loops over an index tensor, in elements; the last dim runs fastest. `out` is 0 in the
/// scattered dim, along which `out_step` leads from one of `out_length` places to the next.
struct ScatterLoops {
  int64_t numel;
  int32_t ndim;
  int64_t sizes[kScatterMaxDims];
  int64_t index[kScatterMaxDims];
  int64_t src[kScatterMaxDims];
  int64_t out[kScatterMaxDims];
  int64_t out_step;
  int64_t out_length;
};

/// What a kernel leaves in its stream's fault word.
inline constexpr int32_t kFaultIndex = 1;

}  // namespace aoti_plugins::cuda
