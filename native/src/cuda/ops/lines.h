#pragma once

#include "cuda/kernels/lines.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// Describes the lines along `dim` of up to three tensors that have equal sizes in all other dims;
/// the last one's length counts. Fails where more dims are left than kernels take.
Status make_lines(const Tensor* const* tensors, int32_t count, int64_t dim, Lines* ret) noexcept;

}  // namespace aoti_plugins::cuda
