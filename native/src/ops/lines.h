#pragma once

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// Describes the lines along `dim` of some tensors that have equal sizes in all other dims; the
/// last one's length counts. Fails where more dims than `most_dims` are left.
///
/// @tparam Lines what a device's kernels are told: `count`, `length`, `ndim`, and by dim or tensor
///     `sizes`, `starts`, `steps`.
template <typename Lines>
Status describe_lines(const Tensor* const* tensors, int32_t count, int64_t dim, int32_t most_dims,
                      Lines* ret) noexcept {
  const Tensor& last = *tensors[count - 1];
  *ret = Lines{};
  ret->count = 1;
  ret->length = last.ndim() > 0 ? last.size(dim) : 1;
  for (int32_t t = 0; t < count; ++t) {
    ret->steps[t] = last.ndim() > 0 ? tensors[t]->stride(dim) : 0;
  }
  // The innermost of the other dims first, as neighbouring lines are.
  for (int64_t d = last.ndim() - 1; d >= 0; --d) {
    if (d == dim || last.size(d) == 1) {
      continue;
    }
    AOTIP_CHECK(ret->ndim < most_dims, "more than %d dims", most_dims + 1);
    ret->sizes[ret->ndim] = last.size(d);
    for (int32_t t = 0; t < count; ++t) {
      ret->starts[t][ret->ndim] = tensors[t]->stride(d);
    }
    ret->count *= last.size(d);
    ++ret->ndim;
  }
  return Status::kOk;
}

}  // namespace aoti_plugins
