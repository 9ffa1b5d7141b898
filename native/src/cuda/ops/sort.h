#pragma once

#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// Writes the first `count` elements of each line along `dim` of `self` in order, and their places,
/// earlier places first among equals, NaN above everything. `values` and `places` (int64) have
/// `count` elements along `dim`. All on one GPU, whose context is current.
Status sort_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim, int64_t count,
                  bool descending) noexcept;

/// As sort_lines, and the same elements, but in any order.
Status select_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim, int64_t count,
                    bool descending) noexcept;

}  // namespace aoti_plugins::cuda
