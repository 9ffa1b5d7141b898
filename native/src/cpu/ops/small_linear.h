#pragma once

#include <aoti_plugins/shim.h>

#include "ops/small_linear.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {

/// A new tensor with the result; fails, with a reason, where an argument does not fit.
Status small_linear(const ops::SmallLinear& linear, AtenTensorHandle* ret);

}  // namespace aoti_plugins::cpu
