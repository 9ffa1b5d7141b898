#pragma once

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// A weight [n, k] of 4 or 8 bits, all of it on one GPU; docs/small-weights.md has the layout.
struct SmallWeight {
  const Tensor* codes;  ///< [n / 8, tiles along k, 512] of uint8
  const Tensor* scale;  ///< [n / 8, groups, 8], as x or float32
  const Tensor* zero;   ///< as scale; null for none
  int64_t bits;
  int64_t group_size;  ///< a power of two from 32 on, or k
  int64_t zero_kind;   ///< a GroupZero of kernels/small_weights.h
};

/// A new tensor: x [..., k] times the transpose of the weight, plus `bias` [n] unless it is null.
/// x is float16 or bfloat16 on a GPU, of any strides.
Status small_weight_linear(const Tensor& x, const SmallWeight& weight, const Tensor* bias,
                           Tensor** ret) noexcept;

}  // namespace aoti_plugins::cuda
