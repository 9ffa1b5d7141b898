#pragma once

// How experts are found that were chosen.

#include "cuda/kernels/experts.h"

namespace aoti_plugins::cuda {

/// The expert at a place; the nearest one where there is none of that number, so that no memory is
/// read that is not there. It may be read before the kernel in front has ended, so nothing that
/// this multiprocessor kept of it counts.
inline __device__ int expert_of(const int64_t* experts, int count, int at) {
  const int64_t expert = static_cast<const volatile int64_t*>(experts)[at];
  const int64_t counted = expert < 0 ? expert + count : expert;
  return static_cast<int>(counted < 0 ? 0 : counted >= count ? count - 1 : counted);
}

inline __device__ bool is_expert(const int64_t* experts, int count, int at) {
  return experts[at] >= -count && experts[at] < count;
}

/// What the result of an expert is multiplied with; 0 where there is none of that number.
inline __device__ float factor_of(const ExpertProduct& product, int slot) {
  return is_expert(product.experts, product.count, slot) ? product.factors[slot] : 0.0f;
}

}  // namespace aoti_plugins::cuda
