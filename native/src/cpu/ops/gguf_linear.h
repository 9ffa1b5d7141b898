#pragma once

#include <aoti_plugins/shim.h>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// The arguments of `aoti_plugins::gguf_linear`: aoti_plugins/operators.inc says what they are.
struct GgufLinear {
  const Tensor* x;
  const Tensor* blocks;
  const Tensor* bias;  ///< null for none
  const char* kind;
};

/// A new tensor with the result; fails, with a reason, where an argument does not fit.
Status gguf_linear(const GgufLinear& linear, AtenTensorHandle* ret);

}  // namespace aoti_plugins::cpu
