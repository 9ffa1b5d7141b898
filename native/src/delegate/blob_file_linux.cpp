#include <aoti_plugins/delegate.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include "delegate/blob_file.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace aoti_plugins {
namespace {

constexpr const char* kFolderVariable = "AOTI_PLUGINS_BLOB_DIR";

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

int anonymous_file() {
  // Newer kernels can refuse to execute what is not asked for; older ones do not know the flag.
  const int fd = memfd_create("aoti_plugins_blob", MFD_CLOEXEC | MFD_EXEC);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create("aoti_plugins_blob", MFD_CLOEXEC);
}

std::vector<std::string> folders() {
  const char* chosen = std::getenv(kFolderVariable);
  if (chosen != nullptr && chosen[0] != '\0') {
    return {chosen};
  }
  std::vector<std::string> found;
  for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* folder = std::getenv(name);
    if (folder != nullptr && folder[0] == '/') {
      found.push_back(folder);
    }
  }
  found.insert(found.end(), {"/tmp", "/var/tmp", "/dev/shm"});
  return found;
}

/// Whether nobody else could put a folder of theirs in the place of one that is made in `parent`.
Status check_parent(const std::string& parent) {
  struct stat info = {};
  AOTIP_CHECK(stat(parent.c_str(), &info) == 0 && S_ISDIR(info.st_mode), "it is no folder");
  AOTIP_CHECK(info.st_uid == geteuid() || info.st_uid == 0, "it belongs to another user");
  AOTIP_CHECK((info.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (info.st_mode & S_ISVTX) != 0,
              "others may write to it and it has no sticky bit");
  return Status::kOk;
}

}  // namespace

BlobFile::~BlobFile() {
  remove();
}

void BlobFile::remove() noexcept {
  if (fd_ >= 0) {
    close(fd_);
    fd_ = -1;
  }
  if (!folder_.empty()) {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
    folder_.clear();
  }
}

Status BlobFile::create(const void* data, size_t nbytes) {
  if (create_in_memory(data, nbytes) == Status::kOk) {
    return Status::kOk;
  }
  std::string problems = last_failure();
  remove();
  for (const std::string& parent : folders()) {
    if (create_in_folder(parent, data, nbytes) == Status::kOk) {
      return Status::kOk;
    }
    problems += "; " + parent + ": " + last_failure();
    remove();
  }
  return fail("no place from which code can be run: %s. Set %s to a folder for that.",
              problems.c_str(), kFolderVariable);
}

Status BlobFile::create_in_memory(const void* data, size_t nbytes) {
  fd_ = anonymous_file();
  AOTIP_CHECK(fd_ >= 0, "memory: no anonymous file (%s)", std::strerror(errno));
  path_ = unique_path(fd_);
  AOTIP_CHECK(access(path_.c_str(), F_OK) == 0, "memory: /proc does not show anonymous files (%s)",
              std::strerror(errno));
  AOTIP_RETURN_IF_FAILED(write_all(data, nbytes));
  AOTIP_RETURN_IF_FAILED(check_executable());
  place_ = "memory";
  return Status::kOk;
}

Status BlobFile::create_in_folder(const std::string& parent, const void* data, size_t nbytes) {
  AOTIP_RETURN_IF_FAILED(check_parent(parent));
  std::string folder = parent + "/aoti_plugins_blob.XXXXXX";
  AOTIP_CHECK(mkdtemp(folder.data()) != nullptr, "%s", std::strerror(errno));
  folder_ = folder;
  path_ = folder + "/blob.so";
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRWXU);
  AOTIP_CHECK(fd_ >= 0, "%s", std::strerror(errno));
  AOTIP_RETURN_IF_FAILED(write_all(data, nbytes));
  AOTIP_RETURN_IF_FAILED(check_executable());
  place_ = "files in " + parent;
  return Status::kOk;
}

Status BlobFile::write_all(const void* data, size_t nbytes) const {
  const char* from = static_cast<const char*>(data);
  while (nbytes > 0) {
    const ssize_t written = write(fd_, from, nbytes);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    AOTIP_CHECK(written > 0, "writing %zu bytes failed (%s)", nbytes, std::strerror(errno));
    from += written;
    nbytes -= static_cast<size_t>(written);
  }
  return Status::kOk;
}

/// Mounts, kernels and policies can refuse to run code from a file; the linker's message would not
/// tell that from a damaged blob.
Status BlobFile::check_executable() const {
  void* page = mmap(nullptr, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd_, 0);
  AOTIP_CHECK(page != MAP_FAILED, "code may not be run from there (%s)", std::strerror(errno));
  munmap(page, 1);
  return Status::kOk;
}

}  // namespace aoti_plugins

const char* aotip_blob_place() {
  static thread_local std::string place;
  try {
    aoti_plugins::BlobFile probe;
    const bool found = probe.create("", 1) == aoti_plugins::Status::kOk;
    place = found ? probe.place() : "";
    return found ? place.c_str() : nullptr;
  } catch (const std::exception& error) {
    (void)aoti_plugins::fail("%s", error.what());
    return nullptr;
  }
}
