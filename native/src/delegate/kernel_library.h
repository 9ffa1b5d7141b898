#pragma once

#include <string>

#include "delegate/payload.h"
#include "slim/status.h"

namespace aoti_plugins {

/// Opens the kernel library that a blob needs: the one that is loaded already, else the file that
/// `aotip_add_kernel_library` named, else what the system finds by the soname.
///
/// A library may state its version with a function (`kernel_library_version_symbol`), as
/// aoti_plugins_add_kernels of our CMake package has it do; one that is older than what the blob
/// was made with is refused. The caller closes `ret_handle` with dlclose.
Status open_kernel_library(const LibraryRef& library, void** ret_handle);

/// The function of type `const char* (void)` by which the library of a soname states its version.
/// Must match native/cmake/aoti_plugins_kernels.cmake.
std::string kernel_library_version_symbol(const std::string& soname);

/// Whether version `found` is before `needed`: numbers between dots, a missing one is 0, and what
/// follows the digits of one ends the comparison.
bool is_older_version(const std::string& found, const std::string& needed) noexcept;

}  // namespace aoti_plugins
