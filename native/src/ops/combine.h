#pragma once

#include <cstdint>

namespace aoti_plugins {

/// How an element and what is there become one. Must match mps/kernels/scatter.metal.
enum class Combine : int32_t { kWrite, kSum, kProd, kMax, kMin };

}  // namespace aoti_plugins
