#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "delegate/payload.h"
#include "slim/status.h"

namespace aoti_plugins {

/// A shared object that was loaded from memory. Where the system allows it no file is written. The
/// last owner unmaps it.
class SharedObject {
 public:
  /// Maps `target`'s blob from `data`, or shares the mapping that this process has of the same
  /// blob.
  ///
  /// Checks size, digest, machine, kernel libraries and symbols first, so that every failure has
  /// a reason that names what is missing. Null, with a reason, when it fails.
  static std::shared_ptr<SharedObject> load(const TargetArtifact& target, const void* data,
                                            size_t nbytes) noexcept;

  /// As `load`, for bytes whose size and digest are known to be right and whose header was
  /// checked with `check_blob`.
  static std::shared_ptr<SharedObject> load_checked(const TargetArtifact& target, const void* data,
                                                    size_t nbytes) noexcept;

  /// The mapping that this process has of a blob already; null when it has none.
  static std::shared_ptr<SharedObject> find_loaded(const TargetArtifact& target) noexcept;

  /// Address of an exported symbol, null when there is none.
  void* symbol(const char* name) const noexcept;

  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

 private:
  SharedObject() = default;

  Status open_libraries(const TargetArtifact& target);
  Status check_symbols(const TargetArtifact& target) const;
  Status map(const TargetArtifact& target, const void* data, size_t nbytes);

  void* handle_ = nullptr;
  std::vector<void*> libraries_;
};

}  // namespace aoti_plugins
