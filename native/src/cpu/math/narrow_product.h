#pragma once

#include "cpu/math/narrow_weights.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {

/// Rows of floats times the transpose of a weight of less than 32 bits, on the team of threads. Few
/// rows read the weight as it is; for many, parts of it become floats that stay in the cache.
///
/// @param x [m, k]
/// @param out [m, n], overlaps nothing
Status narrow_product(const NarrowWeight& weight, int64_t m, const float* x, float* out) noexcept;

}  // namespace aoti_plugins::cpu
