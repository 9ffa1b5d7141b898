#pragma once

#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Memory for one library call on this thread's current stream: the stream's own workspace, or a
/// block that is free again, in the order of the stream, at the end of the scope.
class Workspace {
 public:
  Workspace(size_t nbytes, int32_t gpu) noexcept;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// A failure, with a reason, when there is not enough memory.
  Status status() const noexcept { return status_; }

  /// Null where no bytes were asked for.
  void* data() const noexcept { return data_; }

 private:
  size_t nbytes_;
  int32_t gpu_;
  void* data_ = nullptr;
  void* block_owner_ = nullptr;
  bool is_block_ = false;
  Status status_ = Status::kOk;
};

}  // namespace aoti_plugins::cuda
