#pragma once

#include <algorithm>

#include "ops/operand.h"

namespace aoti_plugins::ops {

/// A device's `(self, values, places, dim, count, descending)`: writes the first `count` elements
/// of each line along `dim` in order, earlier places first among equals, NaN above everything.
using SortLines = Status (*)(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                             int64_t count, bool descending);

/// New tensors with the first `count` elements of each line in order, and with their places.
inline Status take_first(const Tensor& self, const int64_t* sizes, const int64_t* strides,
                         int64_t dim, int64_t count, bool descending, SortLines sort_lines,
                         AtenTensorHandle* ret_values, AtenTensorHandle* ret_places) {
  OwnedTensor values(
      Tensor::empty_strided(self.ndim(), sizes, strides, self.dtype(), self.device()));
  AOTIP_RETURN_IF_NULL(values);
  OwnedTensor places(Tensor::empty_strided(self.ndim(), sizes, strides, kInt64, self.device()));
  AOTIP_RETURN_IF_NULL(places);
  if (values->numel() > 0) {
    AOTIP_RETURN_IF_FAILED(sort_lines(self, *values, *places, dim, count, descending));
  }
  *ret_values = wrap(values.release());
  *ret_places = wrap(places.release());
  return Status::kOk;
}

template <typename D>
Status check_sorted(AtenTensorHandle self, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  AOTIP_CHECK_TENSORS(self);
  AOTIP_CHECK_ARG(ret0);
  AOTIP_CHECK_ARG(ret1);
  AOTIP_RETURN_IF_FAILED(check_on(*unwrap(self), "self", D::kType));
  AOTIP_CHECK(D::orders(unwrap(self)->dtype()), "%s has no order on %s",
              dtype_name(unwrap(self)->dtype()), device_type_name(D::kType));
  return Status::kOk;
}

/// sort; the results are laid out as `self`, without gaps.
///
/// @tparam D `sort_lines`.
template <typename D>
Status sort(AtenTensorHandle self, int64_t dim, bool descending, AtenTensorHandle* ret0,
            AtenTensorHandle* ret1) {
  AOTIP_RETURN_IF_FAILED(check_sorted<D>(self, ret0, ret1));
  const Tensor& t = *unwrap(self);
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  const typename D::Scope scope(t);
  AOTIP_RETURN_IF_FAILED(scope.status());
  int64_t strides[Tensor::kMaxDims];
  dense_strides(t, strides);
  return take_first(t, t.sizes(), strides, dim, t.ndim() > 0 ? t.size(dim) : 1, descending,
                    D::sort_lines, ret0, ret1);
}

/// topk; the results are contiguous.
///
/// @tparam D `sort_lines`, and `select_lines`, which need not give an order.
template <typename D>
Status topk(AtenTensorHandle self, int64_t k, int64_t dim, bool largest, bool in_order,
            AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  AOTIP_RETURN_IF_FAILED(check_sorted<D>(self, ret0, ret1));
  const Tensor& t = *unwrap(self);
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  const int64_t length = t.ndim() > 0 ? t.size(dim) : 1;
  AOTIP_CHECK(k >= 0 && k <= length, "k is %lld, expected 0 to %lld", static_cast<long long>(k),
              static_cast<long long>(length));
  const typename D::Scope scope(t);
  AOTIP_RETURN_IF_FAILED(scope.status());
  int64_t sizes[Tensor::kMaxDims];
  int64_t strides[Tensor::kMaxDims];
  std::copy(t.sizes(), t.sizes() + t.ndim(), sizes);
  if (t.ndim() > 0) {
    sizes[dim] = k;
  }
  contiguous_strides(t.ndim(), sizes, strides);
  return take_first(t, sizes, strides, dim, t.ndim() > 0 ? k : std::min<int64_t>(k, 1), largest,
                    in_order ? D::sort_lines : D::select_lines, ret0, ret1);
}

}  // namespace aoti_plugins::ops
