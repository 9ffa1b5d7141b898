#pragma once

#include "cuda/kernels/one_row.h"

namespace aoti_plugins::cuda {

inline __device__ float silu(float x) {
  return __fdividef(x, 1.0f + __expf(-x));
}

/// What a gate makes of its first half.
inline __device__ float activated(float x, int32_t gate) {
  if (gate == kSiluGate) {
    return silu(x);
  }
  const float inner = gate == kGeluGate ? erff(x * 0.70710678f)
                                        : tanhf(0.79788456f * (x + 0.044715f * x * x * x));
  return 0.5f * x * (1.0f + inner);
}

}  // namespace aoti_plugins::cuda
