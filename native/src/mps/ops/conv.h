#pragma once

#include "ops/conv_plan.h"

namespace aoti_plugins::mps {

/// The result of a planned convolution, in the plan's layout; null, with a reason, when it fails.
/// float32, float16 and bfloat16, all accumulated in float32; any strides, no copies.
Tensor* convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                    const Tensor* bias) noexcept;

}  // namespace aoti_plugins::mps
