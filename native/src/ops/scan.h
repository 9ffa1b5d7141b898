#pragma once

#include "ops/operand.h"

namespace aoti_plugins::ops {

/// cumsum, or cumprod where `product`.
///
/// @tparam D `scan(self, out, dim, product)`, for a result with elements.
template <typename D>
Status scan(AtenTensorHandle self, int64_t dim, const int32_t* dtype, bool product,
            AtenTensorHandle* ret0) {
  AOTIP_CHECK_TENSORS(self);
  AOTIP_CHECK_ARG(ret0);
  const Tensor& t = *unwrap(self);
  const int32_t from = t.dtype();
  const int32_t to = dtype != nullptr   ? *dtype
                     : is_integer(from) ? static_cast<int32_t>(kInt64)
                                        : from;
  AOTIP_RETURN_IF_FAILED(check_on(t, "self", D::kType));
  AOTIP_CHECK(D::computes(from) && D::computes(to), "no running %s of %s as %s on %s",
              product ? "product" : "sum", dtype_name(from), dtype_name(to),
              device_type_name(D::kType));
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  const typename D::Scope scope(t);
  AOTIP_RETURN_IF_FAILED(scope.status());
  OwnedTensor out(Tensor::empty(t.ndim(), t.sizes(), to, t.device()));
  AOTIP_RETURN_IF_NULL(out);
  if (out->numel() > 0) {
    AOTIP_RETURN_IF_FAILED(D::scan(t, *out, dim, product));
  }
  return give(out.release(), ret0);
}

}  // namespace aoti_plugins::ops
