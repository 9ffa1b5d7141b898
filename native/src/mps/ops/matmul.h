#pragma once

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::mps {

/// out = beta * self + alpha * (a @ b), with one batch dim in front when there are 3.
///
/// @param self broadcasts to the sizes of `out`; null, or any values with `beta` 0, for a plain
/// product. All checked (ops/matmul_checks.h), with any strides, of one dtype: float32, float16,
/// bfloat16 (all accumulate in float32) or an integer, which wraps around. On an error `out` is
/// untouched.
Status matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b, double beta,
              double alpha) noexcept;

}  // namespace aoti_plugins::mps
