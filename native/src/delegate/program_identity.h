#pragma once

#include <executorch/runtime/core/named_data_map.h>

#include "slim/export.h"

namespace aoti_plugins {

/// What tells the loaded program that a delegate belongs to from all others, another load of the
/// same file or buffer included; null for null. Equal for all methods of one
/// `executorch::runtime::Program`, with and without data files, and valid while one of them is
/// loaded.
///
/// @param map what ExecuTorch gives to `init`.
AOTIP_CORE const void* program_of(const ::executorch::runtime::NamedDataMap* map) noexcept;

}  // namespace aoti_plugins
