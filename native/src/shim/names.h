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

/// Adds the shims that a library provides: sorted names that live as long as the process.
AOTIP_CORE void register_shims(const char* const* names, size_t count) noexcept;

/// The shims that a library provides: sorted, and known to `has_shim()` of all libraries. One for
/// the life of the process.
template <size_t kCount>
class ShimNames {
 public:
  explicit ShimNames(const char* const (&names)[kCount]) noexcept {
    std::copy(names, names + kCount, sorted_.begin());
    std::sort(sorted_.begin(), sorted_.end(),
              [](const char* a, const char* b) { return std::strcmp(a, b) < 0; });
    register_shims(sorted_.data(), kCount);
  }

  const char* const* list(size_t* ret_count) const noexcept {
    if (ret_count != nullptr) {
      *ret_count = kCount;
    }
    return sorted_.data();
  }

 private:
  std::array<const char*, kCount> sorted_;
};

}  // namespace aoti_plugins
