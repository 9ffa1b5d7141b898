#pragma once

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::mps {

/// Rows and results of a product with a weight of few bits, which kernels take row-major.
struct LinearOperands {
  OwnedTensor dense;  ///< none where x is row-major
  OwnedTensor out;    ///< [..., n] for x [..., k]

  const Tensor& rows(const Tensor& x) const { return dense != nullptr ? *dense : x; }
};

/// Makes them, of the dtype of x.
Status make_operands(const Tensor& x, int64_t n, LinearOperands* ret) noexcept;

/// A bias is read as it is.
Status check_bias(const Tensor* bias, const Tensor& x) noexcept;

}  // namespace aoti_plugins::mps
