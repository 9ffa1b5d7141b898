#pragma once

#include "cuda/ops/matmul.h"

// What the matrix products ask of their arguments before they write anything; a failure's reason
// says which one is wrong, and how.

namespace aoti_plugins::cuda {

/// A tensor on `device` with that many dims; with any number of them for -1. `name` is for the
/// reason.
Status check_operand(const Tensor* t, const char* name, int64_t ndim, Device device) noexcept;

/// A tensor that can be written: no stride of 0 lays elements over each other, as PyTorch asks too.
Status check_result(const Tensor* out, int64_t ndim) noexcept;

/// [m, k] and [k, n] for a result [m, n], with equal batches in front when `batched`.
Status check_sizes(const Tensor& out, const Tensor& a, const Tensor& b, bool batched) noexcept;

/// Of the result's dtype, and of sizes that broadcast to its own.
Status check_self(const Tensor& out, const Tensor& self) noexcept;

/// One factor for each matrix, or one for each row and column; a bias for each column.
Status check_scales(const Tensor& out, const Tensor& a, const Tensor& b,
                    const MatmulScales& scales) noexcept;

}  // namespace aoti_plugins::cuda
