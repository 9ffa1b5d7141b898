#pragma once

#include "cuda/kernels/strided.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// The loops over both tensors: no dimension of size 1, neighbours merged, the one with the
/// smallest step in `dst` first. Fails where more
/// dims are left than kernels take.
Status make_strided_loops(const Tensor& dst, const int64_t* src_strides,
                          StridedLoops* ret) noexcept;

}  // namespace aoti_plugins::cuda
