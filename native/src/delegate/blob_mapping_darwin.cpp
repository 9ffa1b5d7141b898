#include <dlfcn.h>
#include <mach-o/loader.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "delegate/blob_mapping.h"
#include "delegate/target.h"

namespace aoti_plugins {
namespace {

#if defined(__aarch64__)
constexpr cpu_type_t kHostCpu = CPU_TYPE_ARM64;
#else
constexpr cpu_type_t kHostCpu = CPU_TYPE_X86_64;
#endif

/// A file of our own in the folder for temporary files, gone at the end of the scope: dyld opens
/// nothing but paths.
class TemporaryFile {
 public:
  Status create() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr && folder[0] != '\0' ? folder : "/tmp") +
            "/aoti_plugins_blob.XXXXXX";
    fd_ = mkstemp(path_.data());
    AOTIP_CHECK(fd_ >= 0, "no temporary file like %s: %s", path_.c_str(), std::strerror(errno));
    return Status::kOk;
  }

  ~TemporaryFile() {
    if (fd_ >= 0) {
      close(fd_);
      unlink(path_.c_str());
    }
  }
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const char* path() const { return path_.c_str(); }

  Status write_all(const void* data, size_t nbytes) const {
    const char* from = static_cast<const char*>(data);
    while (nbytes > 0) {
      const ssize_t written = write(fd_, from, nbytes);
      if (written < 0 && errno == EINTR) {
        continue;
      }
      AOTIP_CHECK(written > 0, "writing %zu bytes to %s failed: %s", nbytes, path_.c_str(),
                  std::strerror(errno));
      from += written;
      nbytes -= static_cast<size_t>(written);
    }
    return Status::kOk;
  }

 private:
  std::string path_;
  int fd_ = -1;
};

/// Blobs look the shims up among all images whose symbols are visible. Those of a library that
/// Python has loaded are not, until now.
Status show_own_symbols() {
  Dl_info own;
  AOTIP_CHECK(
      dladdr(reinterpret_cast<void*>(&show_own_symbols), &own) != 0 && own.dli_fname != nullptr,
      "the runtime does not find its own path");
  AOTIP_CHECK(dlopen(own.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) != nullptr,
              "the runtime's symbols cannot be shown to blobs: %s", dlerror());
  return Status::kOk;
}

}  // namespace

Status check_blob(const void* data, size_t nbytes, const std::string& key) noexcept {
  mach_header_64 header;
  AOTIP_CHECK(nbytes >= sizeof(header), "blob '%s' has %zu bytes, too few for a shared object",
              key.c_str(), nbytes);
  std::memcpy(&header, data, sizeof(header));
  AOTIP_CHECK(header.magic == MH_MAGIC_64,
              "blob '%s' is not a Mach-O file of 64 bits (it begins with %08x)", key.c_str(),
              header.magic);
  AOTIP_CHECK(header.cputype == kHostCpu,
              "blob '%s' is for processors of type %08x, this machine is %s. Lower the model for "
              "this machine.",
              key.c_str(), static_cast<unsigned>(header.cputype), host_machine());
  AOTIP_CHECK(header.filetype == MH_DYLIB || header.filetype == MH_BUNDLE,
              "blob '%s' is not a dynamic library (Mach-O file type %u)", key.c_str(),
              header.filetype);
  return Status::kOk;
}

Status map_blob(const void* data, size_t nbytes, const std::string& key, void** ret_handle) {
  AOTIP_RETURN_IF_FAILED(show_own_symbols());
  TemporaryFile file;
  AOTIP_RETURN_IF_FAILED(file.create());
  AOTIP_RETURN_IF_FAILED(file.write_all(data, nbytes));
  *ret_handle = dlopen(file.path(), RTLD_NOW | RTLD_LOCAL);
  AOTIP_CHECK(*ret_handle != nullptr, "blob '%s' does not load: %s", key.c_str(), dlerror());
  return Status::kOk;
}

}  // namespace aoti_plugins
