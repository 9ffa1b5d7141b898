#pragma once

#include "cuda/kernels/one_row.h"
#include "cuda/ops/around_products.h"

namespace aoti_plugins::cuda {

/// A product with weights of 16 bits as they lie, whose columns are one behind the other, and what
/// stands around it.
struct RowLinear {
  const Tensor* weights[kMostWeights];  ///< [columns, k] as x, without gaps; null behind the last
  Around around;
};

/// Whether the weights, and what stands around the product, go with x.
Status check_row_linear(const Tensor& x, const RowLinear& linear);

/// A new tensor: the product of x [..., k], float16 or bfloat16 on a GPU, of any strides. One row
/// is one kernel where the GPU has it (compute capability 9.0 on); else cuBLASLt multiplies.
Status row_linear(const Tensor& x, const RowLinear& linear, AtenTensorHandle* ret) noexcept;

/// The same for rows [m, k] without gaps, aligned, which are not checked: writes to `out`
/// [m, columns], which is not empty.
Status row_linear_into(const Tensor& rows, const RowLinear& linear, const Tensor* residual,
                       Tensor& out);

}  // namespace aoti_plugins::cuda
