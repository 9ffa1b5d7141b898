#pragma once

namespace aoti_plugins {

/// Whether this library provides a shim, by PyTorch's name.
bool has_shim(const char* name) noexcept;

}  // namespace aoti_plugins
