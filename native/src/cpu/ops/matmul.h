#pragma once

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// out = beta * self + alpha * (a @ b), with one batch dim in front when `batched`.
///
/// @param self broadcasts to the sizes of `out`; null, or any values with `beta` 0, for a plain
/// product. All CPU, one dtype: float32, float64, float16, bfloat16 (both accumulate in float32) or
/// an integer. On an error `out` is untouched.
Status matmul(Tensor* out, const Tensor* self, const Tensor* a, const Tensor* b, double beta,
              double alpha, bool batched) noexcept;

}  // namespace aoti_plugins::cpu
