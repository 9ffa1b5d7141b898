#pragma once

#include <aoti_plugins/shim.h>

#include "ops/gguf_linear.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {

/// A new tensor with the result; fails, with a reason, where an argument does not fit.
Status gguf_linear(const ops::GgufLinear& linear, AtenTensorHandle* ret);

}  // namespace aoti_plugins::cpu
