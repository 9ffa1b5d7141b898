#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "delegate/blob_mapping.h"
#include "delegate/elf.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace aoti_plugins {
namespace {

/// A path to the descriptor that no other load of this process has used. The loader compares paths
/// with those of what is loaded already, and descriptor numbers come back; "./" and ".//" spell a
/// serial number.
std::string unique_path(int fd) {
  static std::atomic<uint64_t> serial{0};
  std::string path = "/proc/self/fd/";
  for (uint64_t rest = serial.fetch_add(1, std::memory_order_relaxed) + 1; rest > 0; rest >>= 1) {
    path += (rest & 1) != 0 ? ".//" : "./";
  }
  return path + std::to_string(fd);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int anonymous_file() {
  // Newer kernels can refuse to execute what is not asked for; older ones do not know the flag.
  const int fd = memfd_create("aoti_plugins_blob", MFD_CLOEXEC | MFD_EXEC);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create("aoti_plugins_blob", MFD_CLOEXEC);
}

Status write_all(int fd, const void* data, size_t nbytes) {
  const char* from = static_cast<const char*>(data);
  while (nbytes > 0) {
    const ssize_t written = write(fd, from, nbytes);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    AOTIP_CHECK(written > 0, "writing %zu bytes to an anonymous file failed: %s", nbytes,
                std::strerror(errno));
    from += written;
    nbytes -= static_cast<size_t>(written);
  }
  return Status::kOk;
}

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
  const FileDescriptor file(anonymous_file());
  AOTIP_CHECK(file.get() >= 0, "no anonymous file for blob '%s': %s", key.c_str(),
              std::strerror(errno));
  AOTIP_RETURN_IF_FAILED(write_all(file.get(), data, nbytes));
  *ret_handle = dlopen(unique_path(file.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
  AOTIP_CHECK(*ret_handle != nullptr, "blob '%s' does not load: %s", key.c_str(), dlerror());
  keep_openmp_runtimes();
  return Status::kOk;
}

}  // namespace aoti_plugins
