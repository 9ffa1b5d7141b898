#pragma once

#include <aoti_plugins/shim.h>

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cpu {

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

/// A new tensor with the result; fails, with a reason, where an argument does not fit.
Status small_linear(const SmallLinear& linear, AtenTensorHandle* ret);

}  // namespace aoti_plugins::cpu
