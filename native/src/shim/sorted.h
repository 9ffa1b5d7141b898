#pragma once

#include <algorithm>
#include <cstdint>

#include "shim/run_shim.h"
#include "shim/wrap_dim.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// New tensors with the first `count` elements of each line in order, and with their places.
///
/// @param sort_lines a device's `(self, values, places, dim, count, descending)`.
template <typename SortLines>
Status take_first(const Tensor& self, const int64_t* sizes, const int64_t* strides, int64_t dim,
                  int64_t count, bool descending, const SortLines& sort_lines,
                  AtenTensorHandle* ret_values, AtenTensorHandle* ret_places) {
  OwnedTensor values(
      Tensor::empty_strided(self.ndim(), sizes, strides, self.dtype(), self.device()));
  if (values == nullptr) {
    return Status::kFailed;
  }
  OwnedTensor places(Tensor::empty_strided(self.ndim(), sizes, strides, kInt64, self.device()));
  if (places == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(sort_lines(self, *values, *places, dim, count, descending));
  *ret_values = wrap(values.release());
  *ret_places = wrap(places.release());
  return Status::kOk;
}

/// `sort` of a checked tensor; the results are laid out as it is, without gaps.
template <typename SortLines>
Status sorted(const Tensor& self, int64_t dim, bool descending, const SortLines& sort_lines,
              AtenTensorHandle* ret_values, AtenTensorHandle* ret_places) {
  AOTIP_RETURN_IF_FAILED(wrap_dim(self, dim, &dim));
  int64_t strides[Tensor::kMaxDims];
  dense_strides(self, strides);
  return take_first(self, self.sizes(), strides, dim, self.ndim() > 0 ? self.size(dim) : 1,
                    descending, sort_lines, ret_values, ret_places);
}

/// `topk` of a checked tensor; the results are contiguous, and in the order of `sort_lines`.
template <typename SortLines>
Status top(const Tensor& self, int64_t k, int64_t dim, bool largest, const SortLines& sort_lines,
           AtenTensorHandle* ret_values, AtenTensorHandle* ret_places) {
  AOTIP_RETURN_IF_FAILED(wrap_dim(self, dim, &dim));
  const int64_t length = self.ndim() > 0 ? self.size(dim) : 1;
  AOTIP_CHECK(k >= 0 && k <= length, "k is %lld, expected 0 to %lld", static_cast<long long>(k),
              static_cast<long long>(length));
  int64_t sizes[Tensor::kMaxDims];
  int64_t strides[Tensor::kMaxDims];
  std::copy(self.sizes(), self.sizes() + self.ndim(), sizes);
  if (self.ndim() > 0) {
    sizes[dim] = k;
  }
  contiguous_strides(self.ndim(), sizes, strides);
  return take_first(self, sizes, strides, dim, self.ndim() > 0 ? k : std::min<int64_t>(k, 1),
                    largest, sort_lines, ret_values, ret_places);
}

}  // namespace aoti_plugins
