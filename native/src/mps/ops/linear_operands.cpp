#include "mps/ops/linear_operands.h"

#include <algorithm>

#include "mps/ops/operators.h"

namespace aoti_plugins::mps {

Status make_operands(const Tensor& x, int64_t n, LinearOperands* ret) noexcept {
  if (!x.is_contiguous()) {
    ret->dense.reset(Tensor::empty(x.ndim(), x.sizes(), x.dtype(), x.device()));
    AOTIP_RETURN_IF_NULL(ret->dense);
    AOTIP_RETURN_IF_FAILED(Operators::copy(*ret->dense, x));
  }
  int64_t shape[Tensor::kMaxDims];
  std::copy_n(x.sizes(), x.ndim(), shape);
  shape[x.ndim() - 1] = n;
  ret->out.reset(Tensor::empty(x.ndim(), shape, x.dtype(), x.device()));
  AOTIP_RETURN_IF_NULL(ret->out);
  return Status::kOk;
}

Status check_bias(const Tensor* bias, const Tensor& x) noexcept {
  AOTIP_CHECK(bias == nullptr || (bias->dtype() == x.dtype() && bias->is_contiguous()),
              "bias is not contiguous %s", dtype_name(x.dtype()));
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
