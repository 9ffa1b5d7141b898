#pragma once

#include "cuda/ops/small_weights.h"

namespace aoti_plugins::cuda {

/// A product and what stands around it in language models.
struct FusedLinear {
  SmallWeight weight;
  const Tensor* bias;  ///< [n] as x, or null
  const Tensor*
      norm;  ///< [k] as x, or null: x is divided by the root of its mean square, times this
  const Tensor* residual;  ///< as the result, or null: is added
  double epsilon;          ///< added to the mean square
  int64_t gate;            ///< a Gate of kernels/one_row.h: the result has n / 2 columns
};

/// A new tensor: the product of x [..., k], float16 or bfloat16 on a GPU, of any strides. One row
/// is one kernel; for several there are kernels in front of the product and behind it.
Status fused_linear(const Tensor& x, const FusedLinear& linear, Tensor** ret) noexcept;

}  // namespace aoti_plugins::cuda
