#pragma once

#include <cstdint>
#include <string>

#include "slim/tensor.h"

namespace aoti_plugins::mps {

/// The Metal type of the elements of a dtype; null where Metal has none.
const char* metal_type(int32_t dtype) noexcept;

/// The line "#define <name> <value>\n".
std::string define(const char* name, const std::string& value);
std::string define(const char* name, int64_t value);

/// Whether every offset, in elements, from the first element of these tensors fits into 32 bits,
/// with room for a tile past the end. Null tensors do not count.
bool has_small_offsets(const Tensor* const* tensors, int32_t count) noexcept;

}  // namespace aoti_plugins::mps
