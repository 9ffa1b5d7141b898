#pragma once

#include <optional>

#include "cpu/ops/conv.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {

/// A convolution over one or two dims, channels-last, whose weight and bias are constants, by
/// XNNPACK, which packs them at the first call.
///
/// @return nothing, and nothing is written, where it is not of that kind, or XNNPACK is not here.
std::optional<Status> packed_convolution(const ConvPlan& plan,
                                         const ConvData<float>& data) noexcept;

}  // namespace aoti_plugins::cpu
