#pragma once

// What products with weights of 4 and 8 bits are, and what all devices check of them.

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::ops {

// Kinds of zeros; must match aoti_plugins/lowering/small_weights/weight.py.
inline constexpr int64_t kNoZero = 0;
inline constexpr int64_t kZeroPoint = 1;
inline constexpr int64_t kAddedZero = 2;

/// The arguments of `aoti_plugins::small_linear`: aoti_plugins/operators.inc says what they are.
struct SmallLinear {
  const Tensor* x;
  const Tensor* row_scale;  ///< null for x of floats
  const Tensor* row_zero;   ///< null for zeros of 0
  const Tensor* codes;
  const Tensor* scale;
  const Tensor* zero;  ///< null for none
  const Tensor* bias;  ///< null for none
  int64_t bits;
  int64_t zero_kind;
};

/// The sizes of a product, after all checks.
struct SmallLinearSizes {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t groups;  ///< of a row
};

/// Fails, with a reason, where an argument does not fit.
AOTIP_CORE Status check_small_linear(const SmallLinear& linear, SmallLinearSizes* ret) noexcept;

}  // namespace aoti_plugins::ops
