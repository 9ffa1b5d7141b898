#pragma once

#include <algorithm>
#include <cstdint>

#include "shim/run_shim.h"
#include "shim/wrap_dim.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// One scatter. `src` is null when `value` is written everywhere.
struct Scatter {
  Tensor* out;
  const Tensor* self;
  const Tensor* index;
  const Tensor* src;
  double value;
  int64_t dim;
};

/// Reads a shim's arguments. `src` may be null.
inline Status read_scatter(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                           AtenTensorHandle index, AtenTensorHandle src, double value,
                           Scatter* ret) {
  AOTIP_CHECK_TENSOR(out);
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_TENSOR(index);
  AOTIP_RETURN_IF_FAILED(wrap_dim(*unwrap(out), dim, &dim));
  *ret = {unwrap(out), unwrap(self), unwrap(index), unwrap(src), value, dim};
  return Status::kOk;
}

/// Checks dtypes and sizes, all that is the same on every GPU; indices have at most `most_dims`.
inline Status check_scatter(const Scatter& s, int32_t most_dims) {
  const Tensor& out = *s.out;
  const Tensor& index = *s.index;
  AOTIP_CHECK(index.dtype() == kInt64, "index is %s, expected int64", dtype_name(index.dtype()));
  AOTIP_CHECK(out.dtype() == s.self->dtype(), "out is %s, expected %s as self",
              dtype_name(out.dtype()), dtype_name(s.self->dtype()));
  AOTIP_CHECK(s.src == nullptr || s.src->dtype() == out.dtype(), "src is %s, expected %s as self",
              dtype_name(s.src->dtype()), dtype_name(out.dtype()));
  AOTIP_CHECK(out.ndim() == s.self->ndim() &&
                  std::equal(out.sizes(), out.sizes() + out.ndim(), s.self->sizes()),
              "the sizes of out and self differ");
  if (index.numel() == 0) {
    return Status::kOk;
  }
  AOTIP_CHECK(index.ndim() == out.ndim() && index.ndim() <= most_dims &&
                  (s.src == nullptr || s.src->ndim() == out.ndim()),
              "index has %lld dims, expected %lld as out and src, at most %d",
              static_cast<long long>(index.ndim()), static_cast<long long>(out.ndim()), most_dims);
  for (int64_t d = 0; d < index.ndim(); ++d) {
    const bool fits = (d == s.dim || index.size(d) <= out.size(d)) &&
                      (s.src == nullptr || index.size(d) <= s.src->size(d));
    AOTIP_CHECK(fits, "size %lld of dim %lld of index is larger than that of self or src",
                static_cast<long long>(index.size(d)), static_cast<long long>(d));
  }
  return Status::kOk;
}

}  // namespace aoti_plugins
