#pragma once

#include <dlfcn.h>

#include <string>

namespace aoti_plugins::cuda {

/// A library of NVIDIA's that is opened on first use.
struct LibraryName {
  const char* title;     ///< for messages, for instance "cuBLASLt"
  const char* variable;  ///< environment variable with the path of a file to open instead
  const char* stem;      ///< "libcublasLt.so."
  const char* versions;  ///< what follows the stem, the preferred one first: "13 12"
  const char* folders;   ///< in site-packages, where PyPI's packages have it: "nvidia/cu13/lib ..."
  const char* install;   ///< how to get it
};

/// Opens a library: the variable's file; or else what the loader finds, which is the process's own
/// copy where there is one; or else the packages beside ours. Null, with a reason that lists what
/// was tried, when none opens. Never closed.
void* open_library(const LibraryName& name) noexcept;

/// Looks up a function of an open library; one that is not there becomes `*missing`.
template <typename Function>
void find_function(void* library, const char* name, Function* ret, const char** missing) {
  *ret = reinterpret_cast<Function>(dlsym(library, name));
  if (*ret == nullptr) {
    *missing = name;
  }
}

/// Whether the driver is there and can run libraries of CUDA 13.
bool driver_has_cuda_13() noexcept;

}  // namespace aoti_plugins::cuda
