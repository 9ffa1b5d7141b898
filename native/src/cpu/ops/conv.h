#pragma once

#include "ops/conv_plan.h"

namespace aoti_plugins::cpu {

/// Memory of a convolution, dense and in the plan's layout: row-major, or channels-last for input,
/// weight
/// ([out, *kernel, in / groups]) and output alike. A transposed plan is always row-major here.
template <typename T>
struct ConvData {
  const T* input;
  const T* weight;
  const T* bias;  ///< null for none
  T* output;
};

/// Runs a convolution that is not transposed.
Status conv_forward(const ConvPlan& plan, const ConvData<float>& data) noexcept;
Status conv_forward(const ConvPlan& plan, const ConvData<double>& data) noexcept;

/// Runs a transposed convolution; `data` is row-major.
Status conv_transposed(const ConvPlan& plan, const ConvData<float>& data) noexcept;
Status conv_transposed(const ConvPlan& plan, const ConvData<double>& data) noexcept;

}  // namespace aoti_plugins::cpu
