#pragma once

#include <cstddef>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Page-locked host memory, which the GPU copies from and to by itself. Freed by its destructor.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  /// Replaces the memory by one of `nbytes`; a context must be current.
  Status allocate(size_t nbytes) noexcept;

  char* data() const noexcept { return data_; }
  size_t nbytes() const noexcept { return nbytes_; }

 private:
  char* data_ = nullptr;
  size_t nbytes_ = 0;
};

}  // namespace aoti_plugins::cuda
