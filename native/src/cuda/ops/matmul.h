#pragma once

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// What becomes of the products before they are stored.
enum class Activation : int32_t { kNone = 0, kRelu = 1, kGelu = 2 };

/// out = activation(beta * self + alpha * (a @ b)), with one batch dim in front when there are 3.
///
/// @param self broadcasts to the sizes of `out`; null, or any values with `beta` 0, for a plain
/// product. Devices and sizes are checked (ops/matmul_checks.h), dtypes are not. One dtype:
/// float64, float32, float16, bfloat16; or int8 matrices with an int32 result, without self. `out`
/// may have gaps, but no stride of 0. On an error of the arguments it is untouched.
Status matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b, double beta,
              double alpha, Activation activation = Activation::kNone) noexcept;

/// Factors of a product of float8 matrices, all on the GPU.
struct MatmulScales {
  const Tensor* first;   ///< 1 or m elements
  const Tensor* second;  ///< 1 or n elements
  const Tensor* result;  ///< what a float8 result is multiplied with; null for 1
  const Tensor* bias;    ///< n elements of bfloat16 or float16; null for none
  bool by_row;           ///< m and n factors
  bool fast_accumulation;
};

/// out [m, n] = (a [m, k] * first) @ (b [k, n] * second) + bias of float8 matrices; all on one GPU.
/// cuBLASLt has kernels for k and n that are multiples of 16; for k = 0 the result is the bias, or
/// zeros. `out` as above.
Status scaled_matmul(Tensor& out, const Tensor& a, const Tensor& b,
                     const MatmulScales& scales) noexcept;

}  // namespace aoti_plugins::cuda
