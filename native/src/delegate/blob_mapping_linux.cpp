#include <dlfcn.h>

#include "delegate/blob_file.h"
#include "delegate/blob_mapping.h"
#include "delegate/elf.h"

namespace aoti_plugins {
namespace {

/// Kernels that hooks provide may bring an OpenMP runtime, which keeps its threads when the last
/// library that uses it is unloaded; unmapping their code would crash them. Keep what is there.
/// Blobs themselves run on our threads.
void keep_openmp_runtimes() {
  for (const char* soname : {"libgomp.so.1", "libomp.so.5", "libiomp5.so"}) {
    if (void* handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) {
      dlclose(handle);
    }
  }
}

}  // namespace

Status check_blob(const void* data, size_t nbytes, const std::string& key) noexcept {
  return check_elf(data, nbytes, key);
}

Status map_blob(const void* data, size_t nbytes, const std::string& key, void** ret_handle) {
  BlobFile file;
  if (file.create(data, nbytes) != Status::kOk) {
    return fail("blob '%s' does not load: %s", key.c_str(), last_failure());
  }
  *ret_handle = dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  AOTIP_CHECK(*ret_handle != nullptr, "blob '%s' does not load: %s", key.c_str(), dlerror());
  keep_openmp_runtimes();
  return Status::kOk;
}

}  // namespace aoti_plugins
