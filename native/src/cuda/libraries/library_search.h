#pragma once

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string>

#include "slim/status.h"

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

/// The functions of a library, found by the first call that can, and kept. Any thread may ask.
template <typename Library>
class OpenedOnce {
 public:
  /// What `load` filled in, in this call or an earlier one; null, with its reason, where it fails.
  const Library* get(Status (*load)(Library*)) noexcept {
    if (const Library* known = opened_.load(std::memory_order_acquire)) {
      return known;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (opened_.load(std::memory_order_relaxed) == nullptr) {
      if (load(&table_) != Status::kOk) {
        return nullptr;
      }
      opened_.store(&table_, std::memory_order_release);
    }
    return &table_;
  }

 private:
  std::atomic<const Library*> opened_{nullptr};
  std::mutex mutex_;
  Library table_{};
};

/// Whether the driver is there and can run libraries of CUDA 13.
bool driver_has_cuda_13() noexcept;

}  // namespace aoti_plugins::cuda
