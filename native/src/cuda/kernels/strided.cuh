#pragma once

#include "cuda/kernels/strided.h"

namespace aoti_plugins::cuda {

/// Where element `index` of the loops is in both tensors.
inline __device__ void offsets_of(const StridedLoops& loops, int64_t index, int64_t* dst,
                                  int64_t* src) {
  *dst = 0;
  *src = 0;
  for (int32_t d = 0; d < loops.ndim; ++d) {
    const int64_t rest = index / loops.sizes[d];
    const int64_t i = index - rest * loops.sizes[d];
    *dst += i * loops.dst[d];
    *src += i * loops.src[d];
    index = rest;
  }
}

}  // namespace aoti_plugins::cuda
