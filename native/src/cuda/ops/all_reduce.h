#pragma once

#include "cuda/ops/peer_collectives.h"
#include "ranks/collectives.h"
#include "ranks/group.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// What the elements of all ranks come to, by kernels of ours or by NCCL. Tensors are row-major and
/// on the current GPU; `out` may be x.
///
/// @param residual is added in the end; null, or as x, which is float16 or bfloat16 then.
Status all_reduce(const ranks::Group& group, ranks::Reduction reduction, const Tensor& x,
                  const SentAhead& ahead, const Tensor* residual, Tensor& out) noexcept;

}  // namespace aoti_plugins::cuda
