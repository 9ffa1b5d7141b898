#include "cuda/libraries/library_search.h"

#include <dlfcn.h>
#include <executorch/runtime/backend/interface.h>

#include <cstdlib>
#include <exception>
#include <sstream>
#include <vector>

#include "cuda/driver/driver.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {
namespace {

std::vector<std::string> words(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) {
    list.push_back(word);
  }
  return list;
}

/// The folder two above the library that has an address: site-packages, for ours and executorch's.
std::string packages_around(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash != std::string::npos ? path.substr(0, slash) + "/../.." : "";
}

std::vector<std::string> candidates(const LibraryName& name) {
  std::vector<std::string> paths;
  for (const std::string& version : words(name.versions)) {
    paths.push_back(name.stem + version);
  }
  const void* addresses[] = {
      reinterpret_cast<const void*>(&open_library),
      reinterpret_cast<const void*>(&::executorch::runtime::get_num_registered_backends)};
  for (const void* address : addresses) {
    const std::string packages = packages_around(address);
    for (const std::string& folder : words(name.folders)) {
      for (const std::string& version : words(name.versions)) {
        if (!packages.empty()) {
          paths.push_back(packages + "/" + folder + "/" + name.stem + version);
        }
      }
    }
  }
  return paths;
}

}  // namespace

void* open_library(const LibraryName& name) noexcept {
  try {
    const char* chosen = std::getenv(name.variable);
    if (chosen != nullptr && chosen[0] != '\0') {
      void* library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        (void)fail("%s, which %s names, does not load: %s", name.title, name.variable, dlerror());
      }
      return library;
    }
    std::string tried;
    for (const std::string& path : candidates(name)) {
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        return library;
      }
      tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
    }
    (void)fail("%s is not here. %s, or set %s to its path. Tried: %s", name.title, name.install,
               name.variable, tried.c_str());
  } catch (const std::exception& error) {
    (void)fail("looking for %s: %s", name.title, error.what());
  }
  return nullptr;
}

bool driver_has_cuda_13() noexcept {
  int version = 0;
  return open_driver() != nullptr && driver().cuDriverGetVersion(&version) == CUDA_SUCCESS &&
         version >= 13000;
}

}  // namespace aoti_plugins::cuda
