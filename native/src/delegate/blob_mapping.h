#pragma once

#include <cstddef>
#include <string>

#include "slim/status.h"

namespace aoti_plugins {

/// How the bytes of a blob become code of this process: blob_mapping_linux.cpp and
/// blob_mapping_darwin.cpp.

/// Checks that bytes are a shared object for this machine before the loader sees them. `key` names
/// them.
Status check_blob(const void* data, size_t nbytes, const std::string& key) noexcept;

/// Maps a blob that was checked, under a name of its own: two of one content are two mappings.
/// Nothing of it stays in the file system. `*ret_handle` is for `dlsym` and `dlclose`.
Status map_blob(const void* data, size_t nbytes, const std::string& key, void** ret_handle);

}  // namespace aoti_plugins
