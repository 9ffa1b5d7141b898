#pragma once

#include <cstdint>
#include <vector>

#include "slim/export.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// What is asked of a Fourier transform, checked.
struct FftPlan {
  std::vector<int64_t> dims;  ///< in the order asked for, none negative
  double scale = 1.0;         ///< what the sums are multiplied by
};

/// Checks what a shim was given. The dims must be the last ones of a row-major tensor: only then do
/// all builds of PyTorch agree on the strides of the result, which are row-major here.
///
/// @param real whether `self` must be float32 or float64, and not complex
/// @param normalization PyTorch's number of what a transform is divided by: 0 nothing, 1 the root
/// of the number of elements, 2 that number
AOTIP_CORE Status make_fft_plan(const Tensor& self, const int64_t* dim, int64_t count,
                                int64_t normalization, bool real, FftPlan* plan) noexcept;

/// An empty result for `self`, complex; `onesided`: without what the symmetry of a real transform
/// says. Null, with a reason, when it fails.
AOTIP_CORE Tensor* make_fft_output(const Tensor& self, const FftPlan& plan, bool onesided) noexcept;

}  // namespace aoti_plugins
