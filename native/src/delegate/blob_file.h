#pragma once

#include <cstddef>
#include <string>

#include "slim/status.h"

namespace aoti_plugins {

/// The bytes of a blob under a path that the dynamic linker can open, for as long as this lives.
///
/// In memory, if the system has anonymous files and shows them under /proc. Otherwise in a file of
/// a new folder that only this user can enter, which is gone with this object: in
/// AOTI_PLUGINS_BLOB_DIR, or where that is not set in the first of XDG_RUNTIME_DIR, TMPDIR, /tmp,
/// /var/tmp and /dev/shm from which code may be run.
class BlobFile {
 public:
  BlobFile() = default;
  ~BlobFile();
  BlobFile(const BlobFile&) = delete;
  BlobFile& operator=(const BlobFile&) = delete;

  /// Writes the bytes. Fails with what is wrong with each place when there is none.
  Status create(const void* data, size_t nbytes);

  /// No other load of this process has used it.
  const std::string& path() const noexcept { return path_; }

  /// Where the bytes are, for people.
  const std::string& place() const noexcept { return place_; }

 private:
  Status create_in_memory(const void* data, size_t nbytes);
  Status create_in_folder(const std::string& parent, const void* data, size_t nbytes);
  Status write_all(const void* data, size_t nbytes) const;
  Status check_executable() const;
  void remove() noexcept;

  int fd_ = -1;
  std::string folder_;  ///< of our own; empty for memory
  std::string path_;
  std::string place_;
};

}  // namespace aoti_plugins
