#pragma once

// Scales and zeros of groups, of all kinds.

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/small_weights.h"

namespace aoti_plugins::cuda {

/// The bits of the `i`-th scale or zero of a kind.
inline __device__ uint32_t scale_bits(const void* from, uint32_t i, int32_t kind) {
  return kind == kScaleFloat32 ? static_cast<const uint32_t*>(from)[i]
                               : static_cast<const uint16_t*>(from)[i];
}

/// What such bits are, of rows of T.
template <typename T>
__device__ float scale_of(uint32_t bits, int32_t kind) {
  const float half = kind == kScaleFloat16 ? HalfPair<__half>::floats(bits).x
                                           : HalfPair<T>::floats(bits).x;
  return kind == kScaleFloat32 ? __uint_as_float(bits) : half;
}

template <typename T>
__device__ float load_scale(const void* from, uint32_t i, int32_t kind) {
  return scale_of<T>(scale_bits(from, i, kind), kind);
}

}  // namespace aoti_plugins::cuda
