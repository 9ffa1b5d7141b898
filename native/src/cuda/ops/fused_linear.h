#pragma once

#include "cuda/ops/around_products.h"
#include "cuda/ops/small_weights.h"

namespace aoti_plugins::cuda {

/// A product with a weight of 4 or 8 bits and what stands around it.
struct FusedLinear {
  SmallWeight weight;
  Around around;
};

/// A new tensor: the product of x [..., k], float16 or bfloat16 on a GPU, of any strides. One row
/// is one kernel; for several there is one in front of the product for a norm, and, where
/// `ends_products` says no, one behind it.
Status fused_linear(const Tensor& x, const FusedLinear& linear, AtenTensorHandle* ret) noexcept;

}  // namespace aoti_plugins::cuda
