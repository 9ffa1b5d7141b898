#pragma once

#include <aoti_plugins/shim.h>

#include "cuda/ops/small_weights.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// Products of rows with matrices [n, k] of experts, which are one weight, one below the other.
struct ExpertLinear {
  SmallWeight weight;
  const Tensor* experts;   ///< of each row of the result: int64 [rows]
  const Tensor* norm;      ///< null, or [k] as x: see Around; without factors only
  const Tensor* factors;   ///< null, or float32 [m, chosen]: results are added up, times these
  const Tensor* residual;  ///< null, or [m, n] as x: is added to sums
  int64_t count;           ///< of all experts
  double epsilon;          ///< of the norm
  int64_t gate;            ///< a Gate of kernels/one_row.h: results have n / 2 columns
  bool is_second;          ///< whether x is of a product with matrices of the same `experts`
};

/// A new tensor: [rows, n], or [m, n] with factors. `x` [m, k], float16 or bfloat16: each row is
/// for rows / m rows of the result, with factors for one. Nothing waits for the host.
Status expert_linear(const Tensor& x, const ExpertLinear& linear, AtenTensorHandle* ret) noexcept;

}  // namespace aoti_plugins::cuda
