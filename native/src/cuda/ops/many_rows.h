#pragma once

#include <cstdint>

#include "cuda/driver/gpu.h"
#include "cuda/kernels/small_weights.h"
#include "cuda/ops/small_weights.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// Whether kernels/many_rows.cu takes a product on a GPU: of compute capability 9.0, with scales of
/// x's dtype. All of `product` is set.
bool fits_many_rows(const Gpu& gpu, const SmallWeightProduct& product) noexcept;

/// Launches it for rows `x` and weights of `bits`.
///
/// @param is_constant whether no kernel writes the weight, so that it may be read early.
Status many_rows(const Gpu& gpu, const Tensor& x, int64_t bits, bool is_constant,
                 SmallWeightProduct& product, const EndOfProduct& end) noexcept;

}  // namespace aoti_plugins::cuda
