#pragma once

/// Force-included into the files of a kernel package, which aoti_plugins_add_kernels of our CMake
/// package compiles, both for objects that are linked into a blob and for libraries of their own:
/// the linker names of the C shims, and the runtime's threads for OpenMP loops.

#include <aoti_plugins/blob_openmp.h>
#include <aoti_plugins/shim_link_names.h>
