#pragma once

#include <cstddef>

#include "slim/export.h"

namespace aoti_plugins {

/// Whether this library, or one of another device that is loaded, provides a shim, by PyTorch's
/// name.
bool has_shim(const char* name) noexcept;

/// Adds the shims that the library of another device provides: sorted names that live as long as
/// the process.
AOTIP_CORE void register_shims(const char* const* names, size_t count) noexcept;

}  // namespace aoti_plugins
