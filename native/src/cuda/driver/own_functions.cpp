#include "cuda/driver/own_functions.h"

#include <dlfcn.h>

#include <exception>
#include <string>

namespace aoti_plugins::cuda {
namespace {

/// A handle on this library and those that it needs, whatever else the process has loaded.
void* own_library() {
  static void* const handle = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&find_own_function), &info) != 0
               ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
               : nullptr;
  }();
  return handle;
}

}  // namespace

void* find_own_function(const char* name) noexcept {
  try {
    return own_library() != nullptr ? dlsym(own_library(), (std::string("aotip_") + name).c_str())
                                    : nullptr;
  } catch (const std::exception&) {  // out of memory
    return nullptr;
  }
}

}  // namespace aoti_plugins::cuda
