#include "delegate/shared_object.h"

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>

#include "delegate/blob_mapping.h"
#include "delegate/crc32.h"
#include "delegate/kernel_library.h"
#include "delegate/sha256.h"
#include "delegate/thread_atexit.h"
#include "shim/names.h"

namespace aoti_plugins {
namespace {

/// What this process has mapped, by blob. Entries of unloaded blobs are dropped when a blob is
/// loaded.
struct Cache {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<SharedObject>> blobs;
};

Cache& cache() {
  // Never destroyed: programs may be unloaded by destructors that run at exit.
  static Cache* instance = new Cache();
  return *instance;
}

std::string cache_key(const TargetArtifact& target) {
  const std::string digest =
      target.sha256.has_value() ? hex_digits(*target.sha256) : std::to_string(target.crc32);
  return target.key + "|" + digest + "|" + std::to_string(target.nbytes) +
         (target.is_signed ? "|signed" : "");
}

/// Whether bytes are those that a payload means.
Status check_digest(const TargetArtifact& target, const void* data, size_t nbytes) {
  if (target.sha256.has_value()) {
    const Sha256 found = sha256(data, nbytes);
    AOTIP_CHECK(found == *target.sha256,
                "sha256 of blob '%s' is %s, the payload says %s. The program is damaged: lower the "
                "model again.",
                target.key.c_str(), hex_digits(found).c_str(), hex_digits(*target.sha256).c_str());
    return Status::kOk;
  }
  const uint32_t found = crc32(data, nbytes);
  AOTIP_CHECK(found == target.crc32,
              "crc32 of blob '%s' is %08x, the payload says %08x. The program is damaged: lower "
              "the model again.",
              target.key.c_str(), found, target.crc32);
  return Status::kOk;
}

Status copy_blob(const TargetArtifact& target, const void* data, size_t nbytes,
                 std::vector<uint8_t>* ret) noexcept {
  try {
    const uint8_t* const bytes = static_cast<const uint8_t*>(data);
    ret->assign(bytes, bytes + nbytes);
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("loading blob '%s': %s", target.key.c_str(), error.what());
  }
}

bool provides(const std::vector<void*>& libraries, const std::string& symbol) {
  const std::string renamed = "aotip_" + symbol;
  return std::any_of(libraries.begin(), libraries.end(), [&](void* library) {
    return dlsym(library, renamed.c_str()) != nullptr || dlsym(library, symbol.c_str()) != nullptr;
  });
}

}  // namespace

SharedObject::~SharedObject() {
  if (handle_ != nullptr) {
    run_thread_atexit_of(handle_);
    dlclose(handle_);
  }
  for (auto library = libraries_.rbegin(); library != libraries_.rend(); ++library) {
    dlclose(*library);
  }
}

void* SharedObject::symbol(const char* name) const noexcept {
  return dlsym(handle_, name);
}

Status SharedObject::open_libraries(const TargetArtifact& target) {
  for (const LibraryRef& library : target.libraries) {
    void* handle = nullptr;
    AOTIP_RETURN_IF_FAILED(open_kernel_library(library, &handle));
    libraries_.push_back(handle);
  }
  return Status::kOk;
}

Status SharedObject::check_symbols(const TargetArtifact& target) const {
  std::vector<std::string> missing;
  for (const std::string& symbol : target.symbols) {
    if (!has_shim(symbol.c_str()) && !provides(libraries_, symbol)) {
      missing.push_back(symbol);
    }
  }
  std::sort(missing.begin(), missing.end());
  std::string list;
  for (const std::string& symbol : missing) {
    list += (list.empty() ? "" : ", ") + symbol;
  }
  AOTIP_CHECK(missing.empty(),
              "blob '%s' calls %zu C shim%s that nothing here provides: %s. Install the "
              "aoti_plugins, or the "
              "kernel package, that the program was made with.",
              target.key.c_str(), missing.size(), missing.size() == 1 ? "" : "s", list.c_str());
  return Status::kOk;
}

Status SharedObject::map(const TargetArtifact& target, const void* data, size_t nbytes) {
  return map_blob(data, nbytes, target.key, &handle_);
}

std::shared_ptr<SharedObject> SharedObject::find_loaded(const TargetArtifact& target) noexcept {
  try {
    std::lock_guard<std::mutex> lock(cache().mutex);
    const auto found = cache().blobs.find(cache_key(target));
    return found != cache().blobs.end() ? found->second.lock() : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }
}

std::shared_ptr<SharedObject> SharedObject::load(const TargetArtifact& target, const void* data,
                                                 size_t nbytes) noexcept {
  if (nbytes != target.nbytes) {
    (void)fail(
        "blob '%s' has %zu bytes, the payload says %llu. The program is damaged: lower the "
        "model again.",
        target.key.c_str(), nbytes, static_cast<unsigned long long>(target.nbytes));
    return nullptr;
  }
  std::vector<uint8_t> copy;
  if (target.is_signed) {
    // What is checked is what is mapped: the program's file may change in between.
    if (copy_blob(target, data, nbytes, &copy) != Status::kOk) {
      return nullptr;
    }
    data = copy.data();
  }
  if (check_digest(target, data, nbytes) != Status::kOk ||
      check_blob(data, nbytes, target.key) != Status::kOk) {
    return nullptr;
  }
  return load_checked(target, data, nbytes);
}

std::shared_ptr<SharedObject> SharedObject::load_checked(const TargetArtifact& target,
                                                         const void* data, size_t nbytes) noexcept {
  try {
    // One load at a time, so that two threads do not map one blob twice.
    std::lock_guard<std::mutex> lock(cache().mutex);
    auto& blobs = cache().blobs;
    if (auto loaded = blobs[cache_key(target)].lock()) {
      return loaded;
    }
    for (auto it = blobs.begin(); it != blobs.end();) {
      it = it->second.expired() ? blobs.erase(it) : std::next(it);
    }
    std::shared_ptr<SharedObject> object(new SharedObject());
    if (object->open_libraries(target) != Status::kOk ||
        object->check_symbols(target) != Status::kOk ||
        object->map(target, data, nbytes) != Status::kOk) {
      return nullptr;
    }
    blobs[cache_key(target)] = object;
    return object;
  } catch (const std::exception& error) {
    (void)fail("loading blob '%s': %s", target.key.c_str(), error.what());
    return nullptr;
  }
}

}  // namespace aoti_plugins
