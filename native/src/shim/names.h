#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "slim/export.h"

namespace aoti_plugins {

/// Whether this library, or one of another device that is loaded, provides a shim, by PyTorch's
/// name.
bool has_shim(const char* name) noexcept;

/// Adds the shims that the library of another device provides: sorted names that live as long as
/// the process.
AOTIP_CORE void register_shims(const char* const* names, size_t count) noexcept;

/// A library's names, sorted.
template <size_t kCount>
std::array<const char*, kCount> sorted_names(const char* const (&names)[kCount]) {
  std::array<const char*, kCount> sorted;
  std::copy(names, names + kCount, sorted.begin());
  std::sort(sorted.begin(), sorted.end(),
            [](const char* a, const char* b) { return std::strcmp(a, b) < 0; });
  return sorted;
}

}  // namespace aoti_plugins
