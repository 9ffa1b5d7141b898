#pragma once

#include "cuda/ops/around_products.h"

namespace aoti_plugins::cuda {

/// A product with a weight of 16 bits as it lies, and what stands around it.
struct RowLinear {
  const Tensor* weight;        ///< [n, k] as x, without gaps
  const Tensor* gated_weight;  ///< with a gate that has two weights [n / 2, k]: the second one
  Around around;               ///< a gate with two weights has no bias
};

/// A new tensor: the product of x [..., k], float16 or bfloat16 on a GPU, of any strides. One row
/// is one kernel where the GPU has it (compute capability 9.0 on); else cuBLASLt multiplies.
Status row_linear(const Tensor& x, const RowLinear& linear, Tensor** ret) noexcept;

}  // namespace aoti_plugins::cuda
