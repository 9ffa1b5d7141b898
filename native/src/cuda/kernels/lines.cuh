#pragma once

#include "cuda/kernels/lines.h"

namespace aoti_plugins::cuda {

/// Where a line begins in one of the tensors.
inline __device__ int64_t line_start(const Lines& lines, int64_t line, int32_t tensor) {
  int64_t start = 0;
  for (int32_t d = 0; d < lines.ndim; ++d) {
    const int64_t rest = line / lines.sizes[d];
    start += (line - rest * lines.sizes[d]) * lines.starts[tensor][d];
    line = rest;
  }
  return start;
}

}  // namespace aoti_plugins::cuda
