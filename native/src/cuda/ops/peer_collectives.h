#pragma once

#include "ranks/collectives.h"
#include "ranks/group.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

// Collectives of little data, by kernels that write to the memory of the other ranks' GPUs. They
// set `ret_is_done` to false, on all ranks, where that is not to be: by size, dtype, or because the
// GPUs do not reach each other. Tensors are row-major and on the current GPU.

Status peer_all_reduce(const ranks::Group& group, ranks::Reduction reduction, const Tensor& x,
                       Tensor& out, bool* ret_is_done) noexcept;

Status peer_all_gather(const ranks::Group& group, const Tensor& x, Tensor& out,
                       bool* ret_is_done) noexcept;

}  // namespace aoti_plugins::cuda
