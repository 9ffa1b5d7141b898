#pragma once

#include <aoti_plugins/shim.h>

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// What a router chooses by `scores` [m, count], float16, bfloat16 or float32: the `chosen` largest
/// ones' shares, float32 [m, chosen], of a softmax over all, or over them where `is_normalised`,
/// and whose they are, int64, the largest first.
Status chosen_experts(const Tensor& scores, int64_t chosen, bool is_normalised,
                      AtenTensorHandle* shares, AtenTensorHandle* experts) noexcept;

}  // namespace aoti_plugins::cuda
