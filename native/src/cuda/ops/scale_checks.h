#pragma once

#include "cuda/ops/matmul.h"

namespace aoti_plugins::cuda {

/// One factor for each matrix, or one for each row and column; a bias for each column. A failure's
/// reason says which one is wrong, and how.
Status check_scales(const Tensor& out, const Tensor& a, const Tensor& b,
                    const MatmulScales& scales) noexcept;

}  // namespace aoti_plugins::cuda
