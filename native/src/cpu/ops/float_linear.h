#pragma once

#include <aoti_plugins/shim.h>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// The arguments of `aoti_plugins::float_linear`: aoti_plugins/operators.inc says what they are.
struct FloatLinear {
  const Tensor* x;
  const Tensor* codes;
  const Tensor* scale;
  const Tensor* bias;  ///< null for none
  double whole;
  const char* kind;
};

/// A new tensor with the result; fails, with a reason, where an argument does not fit.
Status float_linear(const FloatLinear& linear, AtenTensorHandle* ret);

}  // namespace aoti_plugins::cpu
