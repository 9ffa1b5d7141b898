#pragma once

#include "ops/conv_plan.h"
#include "ops/operand.h"

namespace aoti_plugins::ops {

/// The lists that a convolution is told.
struct ConvLists {
  ConvList stride;
  ConvList padding;
  ConvList dilation;
  ConvList output_padding;
};

/// A convolution.
///
/// @param bias null, or undefined, for none.
/// @tparam D `convolution(plan, input, weight, bias)`, a new tensor or null with a reason.
template <typename D>
Status convolve(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle bias,
                const ConvLists& lists, bool transposed, int64_t groups, AtenTensorHandle* ret) {
  AOTIP_CHECK_TENSORS(input, weight);
  AOTIP_CHECK_ARG(ret);
  const Tensor* b = bias != nullptr && unwrap(bias)->defined() ? unwrap(bias) : nullptr;
  ConvPlan plan;
  AOTIP_RETURN_IF_FAILED(make_conv_plan(*unwrap(input), *unwrap(weight), b, lists.stride,
                                        lists.padding, lists.dilation, lists.output_padding,
                                        transposed, groups, D::kType, &plan));
  return give(D::convolution(plan, *unwrap(input), *unwrap(weight), b), ret);
}

}  // namespace aoti_plugins::ops
