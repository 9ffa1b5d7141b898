#pragma once

#include <optional>

#include "cpu/math/gemm_problem.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {

/// A product whose second matrix is a constant, by XNNPACK, which packs it at the first call.
///
/// @return nothing, and nothing is written, where the product is not of that kind, or too small to
/// be worth it, or XNNPACK is not here.
std::optional<Status> packed_linear(const GemmProblem<float>& problem) noexcept;

}  // namespace aoti_plugins::cpu
