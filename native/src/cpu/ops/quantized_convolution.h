#pragma once

#include "ops/conv_plan.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// A row of numbers of 8 bits stands for (number - zero) * scale.
struct Quantized {
  float scale;
  int32_t zero;
};

/// The arguments of `aoti_plugins::quantized_convolution`: aoti_plugins/operators.inc says what
/// they are. All checked but for the plan's.
struct QuantizedConvolution {
  const Tensor* input;
  const Tensor* weight;
  const Tensor* scale;  ///< of the weight
  const Tensor* bias;   ///< null for none
  Quantized x;
  Quantized y;
  int32_t least;  ///< numbers of the result, after the limits
  int32_t most;
};

/// A new tensor with the result, channels-last; null, with a reason, where it fails.
Tensor* quantized_convolution(const ConvPlan& plan, const QuantizedConvolution& convolution);

}  // namespace aoti_plugins::cpu
