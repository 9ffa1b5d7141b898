#pragma once

#include <cstddef>
#include <string>

#include "slim/status.h"

namespace aoti_plugins {

/// Checks that bytes are a shared object for this machine before the loader sees them. `key` names
/// them.
Status check_elf(const void* data, size_t nbytes, const std::string& key) noexcept;

}  // namespace aoti_plugins
