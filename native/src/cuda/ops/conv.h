#pragma once

#include "ops/conv_plan.h"

namespace aoti_plugins::cuda {

/// A new tensor with the convolution of tensors on one GPU, which `plan` was made from. What has
/// the plan's layout is used in place, the rest through copies. Null, with a reason, when it fails.
Tensor* convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                    const Tensor* bias) noexcept;

}  // namespace aoti_plugins::cuda
