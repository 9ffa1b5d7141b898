#include "cuda/driver/driver.h"

#include <dlfcn.h>
#include <executorch/runtime/platform/log.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "cuda/driver/shortage.h"

#define AOTIP_STRING(name) #name
#define AOTIP_EXPANDED_STRING(name) AOTIP_STRING(name)

namespace aoti_plugins::cuda {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";

std::atomic<const Driver*> opened{nullptr};

/// A symbol that an old driver lacks, or null.
const char* missing_function(void* library, Driver* table) {
  const char* missing = nullptr;
#define AOTIP_DRIVER_RESOLVE(name)                                                                \
  table->name = reinterpret_cast<decltype(&::name)>(dlsym(library, AOTIP_EXPANDED_STRING(name))); \
  if (table->name == nullptr) {                                                                   \
    missing = AOTIP_EXPANDED_STRING(name);                                                        \
  }
  AOTIP_DRIVER_OPTIONAL_FUNCTIONS(AOTIP_DRIVER_RESOLVE)
  missing = nullptr;
  AOTIP_DRIVER_FUNCTIONS(AOTIP_DRIVER_RESOLVE)
#undef AOTIP_DRIVER_RESOLVE
  return missing;
}

Status load_driver(Driver* table) {
  const char* override = std::getenv(kDriverVariable);
  const char* path = override != nullptr && override[0] != '\0' ? override : kDriverLibrary;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  AOTIP_CHECK(library != nullptr,
              "the NVIDIA driver does not load: %s. Install NVIDIA's driver on this machine (in a "
              "container: start it with access to the GPU)",
              dlerror());
  const char* missing = missing_function(library, table);
  if (missing != nullptr) {
    dlclose(library);
    return fail("the driver %s lacks %s: it is older than CUDA 11.4. Update NVIDIA's driver", path,
                missing);
  }
  const CUresult code = table->cuInit(0);
  if (code != CUDA_SUCCESS) {
    const char* name = nullptr;
    (void)table->cuGetErrorName(code, &name);
    return fail("the NVIDIA driver does not start: cuInit says %s (%d)",
                name != nullptr ? name : "an unknown error", static_cast<int>(code));
  }
  return Status::kOk;
}

}  // namespace

const Driver* open_driver() noexcept {
  if (const Driver* known = opened.load(std::memory_order_acquire)) {
    return known;
  }
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (const Driver* known = opened.load(std::memory_order_acquire)) {
    return known;
  }
  static Driver table;  // written under the lock, read once `opened` is set
  if (load_driver(&table) != Status::kOk) {
    return nullptr;  // asked again next time: containers may get their GPU late
  }
  opened.store(&table, std::memory_order_release);
  return &table;
}

const Driver* find_driver() noexcept {
  if (const Driver* known = opened.load(std::memory_order_acquire)) {
    return known;
  }
  const std::string reason = last_failure();
  const Driver* found = open_driver();
  if (found == nullptr) {
    (void)fail("%s", reason.c_str());  // not a failure of the caller's
  }
  return found;
}

const Driver& driver() noexcept {
  return *opened.load(std::memory_order_relaxed);
}

const char* error_text(CUresult code) noexcept {
  thread_local char text[256];
  const char* name = nullptr;
  const char* description = nullptr;
  if (const Driver* known = opened.load(std::memory_order_acquire)) {
    (void)known->cuGetErrorName(code, &name);
    (void)known->cuGetErrorString(code, &description);
  }
  if (name == nullptr) {
    std::snprintf(text, sizeof(text), "CUDA error %d", static_cast<int>(code));
  } else {
    std::snprintf(text, sizeof(text), "%s (%s)", name, description != nullptr ? description : "?");
  }
  return text;
}

Status fail_driver(const char* what, CUresult code) noexcept {
  shortages() += code == CUDA_ERROR_OUT_OF_MEMORY ? 1 : 0;
  return fail("%s failed: %s", what, error_text(code));
}

void log_driver(const char* what, CUresult code) noexcept {
  if (code != CUDA_SUCCESS && code != CUDA_ERROR_DEINITIALIZED) {
    ET_LOG(Error, "%s failed: %s", what, error_text(code));
  }
}

}  // namespace aoti_plugins::cuda
