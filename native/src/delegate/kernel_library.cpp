#include "delegate/kernel_library.h"

#include <dlfcn.h>

#include <cctype>
#include <exception>
#include <map>
#include <mutex>

#include "aoti_plugins/delegate.h"
#include "delegate/fork_gate.h"
#include "slim/status.h"

namespace aoti_plugins {
namespace {

constexpr int kMode = RTLD_NOW | RTLD_LOCAL;

/// Where the libraries are that this process was told of, by soname.
struct KnownFiles {
  std::mutex mutex;
  std::map<std::string, std::string> paths;
};

KnownFiles& known_files() {
  // Never destroyed: programs may be loaded by destructors that run at exit.
  static KnownFiles* instance = new KnownFiles();
  return *instance;
}

std::string known_path(const std::string& soname) {
  KnownFiles& known = known_files();
  std::lock_guard<std::mutex> lock(known.mutex);
  const auto found = known.paths.find(soname);
  return found != known.paths.end() ? found->second : "";
}

void* open_by_name_or_path(const std::string& soname) {
  if (void* loaded = dlopen(soname.c_str(), kMode | RTLD_NOLOAD)) {
    return loaded;
  }
  const std::string path = known_path(soname);
  return dlopen(path.empty() ? soname.c_str() : path.c_str(), kMode);
}

/// The number at `at`, which moves behind it and behind a dot; ends the text where something else
/// follows.
unsigned long next_number(const std::string& text, size_t* at) {
  unsigned long number = 0;
  while (*at < text.size() && std::isdigit(static_cast<unsigned char>(text[*at]))) {
    number = number * 10 + static_cast<unsigned long>(text[(*at)++] - '0');
  }
  *at = *at < text.size() && text[*at] == '.' ? *at + 1 : text.size();
  return number;
}

Status check_version(const LibraryRef& library, void* handle) {
  const std::string symbol = kernel_library_version_symbol(library.soname);
  void* const address = dlsym(handle, symbol.c_str());
  if (address == nullptr) {
    return Status::kOk;  // its soname is all it promises
  }
  const char* const text = reinterpret_cast<const char* (*)()>(address)();
  const std::string found = text != nullptr ? text : "";
  Dl_info info = {};
  const bool placed = dladdr(address, &info) != 0 && info.dli_fname != nullptr;
  AOTIP_CHECK(!is_older_version(found, library.version),
              "kernel library %s (version %s, from %s) is only version %s here. Upgrade %s to %s. "
              "Found: %s.",
              library.soname.c_str(), library.version.c_str(), library.origin.c_str(),
              found.c_str(), library.origin.c_str(), library.version.c_str(),
              placed ? info.dli_fname : "in this process");
  return Status::kOk;
}

}  // namespace

std::string kernel_library_version_symbol(const std::string& soname) {
  std::string symbol = "aotip_version_of_" + soname;
  for (char& c : symbol) {
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return symbol;
}

bool is_older_version(const std::string& found, const std::string& needed) noexcept {
  size_t found_at = 0;
  size_t needed_at = 0;
  while (found_at < found.size() || needed_at < needed.size()) {
    const unsigned long one = next_number(found, &found_at);
    const unsigned long other = next_number(needed, &needed_at);
    if (one != other) {
      return one < other;
    }
  }
  return false;
}

Status open_kernel_library(const LibraryRef& library, void** ret_handle) {
  AOTIP_CHECK(library.soname.find('/') == std::string::npos,
              "kernel library '%s' is named by a path, expected a soname. The program is damaged: "
              "lower the model again.",
              library.soname.c_str());
  void* const handle = open_by_name_or_path(library.soname);
  AOTIP_CHECK(handle != nullptr,
              "kernel library %s (version %s, from %s) does not load: %s. Install %s %s.",
              library.soname.c_str(), library.version.c_str(), library.origin.c_str(), dlerror(),
              library.origin.c_str(), library.version.c_str());
  const Status status = check_version(library, handle);
  if (status != Status::kOk) {
    dlclose(handle);
    return status;
  }
  *ret_handle = handle;
  return Status::kOk;
}

}  // namespace aoti_plugins

extern "C" int32_t aotip_add_kernel_library(const char* soname, const char* path) {
  if (soname == nullptr || path == nullptr) {
    return 1;
  }
  const aoti_plugins::InsideLibrary inside;
  try {
    auto& known = aoti_plugins::known_files();
    std::lock_guard<std::mutex> lock(known.mutex);
    known.paths[soname] = path;
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}
