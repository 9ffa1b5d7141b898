#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>

#include "mps/driver/objc.h"
#include "slim/status.h"

namespace aoti_plugins::mps {

/// Where an address is in a buffer: what an encoder binds. The buffer is borrowed.
struct BufferSlice {
  Id buffer = nullptr;
  size_t offset = 0;
};

/// All Metal buffers of the process, by the addresses of their bytes. Tensors know addresses, which
/// may point into the middle of a buffer; kernels are given buffers. Thread-safe.
class BufferIndex {
 public:
  static BufferIndex& instance() noexcept;

  /// Adds a new buffer and tells where its bytes are.
  Status add(Owned buffer, size_t nbytes, void** ret_data) noexcept;

  /// Drops the buffer that starts at an address; fails where none does. Commands that use it keep
  /// the buffer itself.
  Status remove(void* data) noexcept;

  /// Makes a buffer over host memory, without a copy, until `unwrap()`; pages that are wrapped
  /// already share their buffer. False where it cannot be: `data` is not at a page's start, Metal
  /// refuses, or the memory reaches beyond what is wrapped there.
  bool wrap(void* data, size_t nbytes) noexcept;
  void unwrap(void* data) noexcept;

  /// Finds the buffer with all of some bytes; fails where there is none.
  Status find(const void* data, size_t nbytes, BufferSlice* ret) const noexcept;

  /// How many buffers there are.
  size_t size() const noexcept;

 private:
  struct Entry {
    Owned buffer;
    size_t nbytes = 0;
    size_t users = 1;
  };
  using Entries = std::map<uintptr_t, Entry>;

  BufferIndex() = default;
  Entries::const_iterator entry_of(uintptr_t address) const noexcept;

  mutable std::shared_mutex mutex_;
  Entries entries_;
};

/// Host memory that is wrapped while this lives.
class WrappedMemory {
 public:
  WrappedMemory() noexcept = default;
  ~WrappedMemory() { reset(); }
  WrappedMemory(WrappedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  WrappedMemory& operator=(WrappedMemory&&) = delete;
  WrappedMemory(const WrappedMemory&) = delete;

  /// As `BufferIndex::wrap()`.
  bool wrap(void* data, size_t nbytes) noexcept {
    reset();
    data_ = BufferIndex::instance().wrap(data, nbytes) ? data : nullptr;
    return data_ != nullptr;
  }

 private:
  void reset() noexcept {
    if (data_ != nullptr) {
      BufferIndex::instance().unwrap(std::exchange(data_, nullptr));
    }
  }

  void* data_ = nullptr;
};

}  // namespace aoti_plugins::mps
