#pragma once

#include "slim/tensor.h"

namespace aoti_plugins::mps {

/// Writes the first `count` elements of each line of `self` along `dim` in order, and their places
/// (int64) in the line; equal ones stay in the order of the line, NaN counts as the largest.
Status sort_lines(const Tensor& self, const Tensor& values, const Tensor& places, int64_t dim,
                  int64_t count, bool descending) noexcept;

}  // namespace aoti_plugins::mps
