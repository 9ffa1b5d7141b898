#pragma once

#include "cuda/kernels/one_row.h"

namespace aoti_plugins::cuda {

/// The distribution function of the normal distribution, to 1e-7; by formula 7.1.26 of Abramowitz
/// and Stegun's handbook, which is shorter than erff.
inline __device__ float normal_distribution(float x) {
  const float t = __fdividef(1.0f, 1.0f + 0.23164189f * fabsf(x));
  const float series =
      t * (0.127414796f +
           t * (-0.142248368f + t * (0.710706871f + t * (-0.726576013f + t * 0.530702715f))));
  const float tail = series * __expf(-0.5f * x * x);
  return x < 0.0f ? tail : 1.0f - tail;
}

/// What a gate makes of its first half. The approximation of GELU by tanh is x times the logistic
/// function of twice what tanh is of.
inline __device__ float activated(float x, int32_t gate) {
  if (gate == kGeluGate) {
    return x * normal_distribution(x);
  }
  const float of = gate == kSiluGate ? x : 1.59576912f * (x + 0.044715f * x * x * x);
  return __fdividef(x, 1.0f + __expf(-of));
}

}  // namespace aoti_plugins::cuda
