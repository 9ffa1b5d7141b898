#pragma once

#include "ops/matmul_checks.h"
#include "ops/operand.h"

namespace aoti_plugins::ops {

/// out = beta * self + alpha * (a @ b), with a batch in front where `batched`.
///
/// @param self null for a plain product.
/// @tparam D `matmul(out, self, a, b, beta, alpha)`, of one dtype and on one device.
template <typename D>
Status matmul(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle a, AtenTensorHandle b,
              double beta, double alpha, bool batched) {
  const Tensor* first = unwrap(a);
  const Tensor* second = unwrap(b);
  const Tensor* added = unwrap(self);
  AOTIP_RETURN_IF_FAILED(check_product(unwrap(out), added, first, second, batched, D::kType));
  const int32_t dtype = unwrap(out)->dtype();
  AOTIP_RETURN_IF_FAILED(check_dtype(*first, "the first matrix", dtype));
  AOTIP_RETURN_IF_FAILED(check_dtype(*second, "the second matrix", dtype));
  return D::matmul(*unwrap(out), added, *first, *second, beta, alpha);
}

template <typename D>
Status matmul_add(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle a,
                  AtenTensorHandle b, double beta, double alpha, bool batched) {
  AOTIP_CHECK_TENSORS(self);
  return matmul<D>(out, self, a, b, beta, alpha, batched);
}

}  // namespace aoti_plugins::ops
