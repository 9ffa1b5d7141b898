#pragma once

#include <limits>

#include "cpu/math/activations.h"
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
  T least = -std::numeric_limits<T>::infinity();  ///< what `end_result` keeps the result between
  T most = std::numeric_limits<T>::infinity();
  void (*activation)(T* data, int64_t count) = nullptr;  ///< what is made of it, if anything
};

/// Runs a convolution that is not transposed.
template <typename T>
Status conv_forward(const ConvPlan& plan, const ConvData<T>& data) noexcept;

/// Runs a transposed convolution; `data` is row-major.
template <typename T>
Status conv_transposed(const ConvPlan& plan, const ConvData<T>& data) noexcept;

/// What is done to the result of a convolution.
struct ConvEnd {
  float least = -std::numeric_limits<float>::infinity();  ///< what it is kept between
  float most = std::numeric_limits<float>::infinity();
  Activation activation = nullptr;
};

/// A new tensor with a convolution and its end, all of it float32 and channels-last as the plan;
/// null, with a reason, where it fails.
Tensor* ended_convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                          const Tensor* bias, const ConvEnd& end);

}  // namespace aoti_plugins::cpu
