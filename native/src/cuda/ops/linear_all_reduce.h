#pragma once

#include <aoti_plugins/shim.h>

#include <cstdint>

#include "ranks/collectives.h"
#include "ranks/group.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// A new tensor: x [..., k], float16 or bfloat16 on a GPU, times the transpose of a weight [n, k]
/// of the same dtype, reduced over the ranks of a group, plus a residual. Where that is much, the
/// first rows of the product go to the other rank while the others are computed.
///
/// @param residual as the result; null for none.
Status linear_all_reduce(const Tensor& x, const Tensor& weight, const Tensor* residual,
                         int64_t reduction, const ranks::Group& group,
                         AtenTensorHandle* ret) noexcept;

/// How many rows of a product of [m, n] to compute first, so that they go to another GPU while the
/// others are computed; 0 where two products would take longer than one on so many multiprocessors.
int64_t rows_ahead(int64_t m, int64_t n, int64_t multiprocessors) noexcept;

}  // namespace aoti_plugins::cuda
