#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/combine.h"
#include "ops/operand.h"

namespace aoti_plugins::ops {

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
  AOTIP_CHECK_TENSORS(out, self, index);
  AOTIP_RETURN_IF_FAILED(wrap_dim(*unwrap(out), dim, &dim));
  *ret = {unwrap(out), unwrap(self), unwrap(index), unwrap(src), value, dim};
  return Status::kOk;
}

/// Checks devices, dtypes and sizes; indices have at most `D::kMostScatterDims`.
template <typename D>
Status check_scatter(const Scatter& s) {
  const Tensor& out = *s.out;
  const Tensor& index = *s.index;
  AOTIP_RETURN_IF_FAILED(check_on(out, "out", D::kType));
  AOTIP_RETURN_IF_FAILED(check_beside(*s.self, "self", out));
  AOTIP_RETURN_IF_FAILED(check_beside(index, "index", out));
  AOTIP_CHECK(index.dtype() == kInt64, "index is %s, expected int64", dtype_name(index.dtype()));
  AOTIP_CHECK(out.dtype() == s.self->dtype(), "out is %s, expected %s as self",
              dtype_name(out.dtype()), dtype_name(s.self->dtype()));
  AOTIP_CHECK(D::computes(out.dtype()), "no scatter for %s on %s", dtype_name(out.dtype()),
              device_type_name(D::kType));
  if (s.src != nullptr) {
    AOTIP_RETURN_IF_FAILED(check_beside(*s.src, "src", out));
    AOTIP_CHECK(s.src->dtype() == out.dtype(), "src is %s, expected %s as self",
                dtype_name(s.src->dtype()), dtype_name(out.dtype()));
  }
  AOTIP_CHECK(out.ndim() == s.self->ndim() &&
                  std::equal(out.sizes(), out.sizes() + out.ndim(), s.self->sizes()),
              "the sizes of out and self differ");
  if (index.numel() == 0) {
    return Status::kOk;
  }
  AOTIP_CHECK(index.ndim() == out.ndim() && index.ndim() <= D::kMostScatterDims &&
                  (s.src == nullptr || s.src->ndim() == out.ndim()),
              "index has %lld dims, expected %lld as out and src, at most %lld",
              static_cast<long long>(index.ndim()), static_cast<long long>(out.ndim()),
              static_cast<long long>(D::kMostScatterDims));
  for (int64_t d = 0; d < index.ndim(); ++d) {
    const bool fits = (d == s.dim || index.size(d) <= out.size(d)) &&
                      (s.src == nullptr || index.size(d) <= s.src->size(d));
    AOTIP_CHECK(fits, "size %lld of dim %lld of index is larger than that of self or src",
                static_cast<long long>(index.size(d)), static_cast<long long>(d));
  }
  return Status::kOk;
}

/// Divides each place by how many elements met there.
template <typename D>
Status divide_by_counts(const Scatter& s, bool include_self) {
  const OwnedTensor counts(Tensor::empty(s.out->ndim(), s.out->sizes(), kInt32, s.out->device()));
  AOTIP_RETURN_IF_NULL(counts);
  AOTIP_RETURN_IF_FAILED(D::fill_counts(*counts, include_self ? 1 : 0));
  AOTIP_RETURN_IF_FAILED(D::scatter_pass(s, *counts, nullptr, 1.0, Combine::kSum));
  return D::divide(*s.out, *counts);
}

/// What is done where elements meet.
struct Reduction {
  Combine combine;
  bool mean;
  bool include_self;
};

inline Status find_reduction(const char* name, bool include_self, Reduction* ret) {
  AOTIP_CHECK(name != nullptr, "reduce is null");
  const std::pair<const char*, Combine> names[] = {
      {"sum", Combine::kSum},  {"prod", Combine::kProd}, {"mean", Combine::kSum},
      {"amax", Combine::kMax}, {"amin", Combine::kMin},
  };
  for (const auto& [known, combine] : names) {
    if (std::strcmp(name, known) == 0) {
      *ret = {combine, std::strcmp(name, "mean") == 0, include_self};
      return Status::kOk;
    }
  }
  return fail("reduce is '%s', expected sum, prod, mean, amax or amin", name);
}

/// scatter of checked arguments.
///
/// @tparam D `check_places(s)` looks at the numbers of the index where that is free;
///     `scatter_pass(s, out, src, value, combine)` combines the elements of `src`, or `value` where
///     that is null, with those of `out`; `copy(out, self)`; for means `fill_counts(counts,
///     number)` and `divide(out, counts)`.
template <typename D>
Status run_scatter(const Scatter& s, const Reduction& how) {
  AOTIP_RETURN_IF_FAILED(check_scatter<D>(s));
  const typename D::Scope scope(*s.out);
  AOTIP_RETURN_IF_FAILED(scope.status());
  AOTIP_RETURN_IF_FAILED(D::check_places(s));
  // The old elements of out are gone from here on.
  if (s.out->data() != s.self->data()) {
    AOTIP_RETURN_IF_FAILED(D::copy(*s.out, *s.self));
  }
  if (s.index->numel() == 0 || s.out->numel() == 0) {
    return Status::kOk;
  }
  if (how.combine != Combine::kWrite && !how.include_self) {
    // Any one of the elements that meet at a place does not change their extreme.
    const bool extreme = how.combine == Combine::kMax || how.combine == Combine::kMin;
    AOTIP_RETURN_IF_FAILED(D::scatter_pass(s, *s.out, extreme ? s.src : nullptr,
                                           how.combine == Combine::kProd ? 1.0 : 0.0,
                                           Combine::kWrite));
  }
  AOTIP_RETURN_IF_FAILED(D::scatter_pass(s, *s.out, s.src, s.value, how.combine));
  return how.mean ? divide_by_counts<D>(s, how.include_self) : Status::kOk;
}

template <typename D>
Status scatter_src(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
                   AtenTensorHandle src, const Reduction& how) {
  AOTIP_CHECK_TENSORS(src);
  Scatter s{};
  AOTIP_RETURN_IF_FAILED(read_scatter(out, self, dim, index, src, 0.0, &s));
  return run_scatter<D>(s, how);
}

template <typename D>
Status scatter_value(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                     AtenTensorHandle index, double value) {
  Scatter s{};
  AOTIP_RETURN_IF_FAILED(read_scatter(out, self, dim, index, nullptr, value, &s));
  return run_scatter<D>(s, {Combine::kWrite, false, true});
}

template <typename D>
Status scatter_reduce(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                      AtenTensorHandle index, AtenTensorHandle src, const char* reduce,
                      bool include_self) {
  Reduction how{};
  AOTIP_RETURN_IF_FAILED(find_reduction(reduce, include_self, &how));
  return scatter_src<D>(out, self, dim, index, src, how);
}

}  // namespace aoti_plugins::ops
