#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "slim/device.h"

namespace aoti_plugins {

/// Alignment of the memory that storages own, in bytes.
inline constexpr size_t kStorageAlignment = 64;

/// Memory that several tensors share, counted by reference. On the CPU the counter and the bytes
/// are one allocation.
class AOTIP_CORE Storage {
 public:
  /// New memory of `nbytes` on `device`, with one reference; null, with a reason, when it fails.
  static Storage* allocate(size_t nbytes, Device device) noexcept;

  void* data() const noexcept { return data_; }
  size_t nbytes() const noexcept { return nbytes_; }
  Device device() const noexcept { return device_; }

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }

  /// Drops one reference; the last one frees the memory.
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      free();
    }
  }

  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

 private:
  Storage(void* data, size_t nbytes, Device device) noexcept
      : data_(data), nbytes_(nbytes), device_(device) {}
  ~Storage() = default;

  void free() noexcept;

  std::atomic<int64_t> references_{1};
  void* data_;
  size_t nbytes_;
  Device device_;
  void* owner_ = nullptr;  ///< what the device wants back with the memory
};

}  // namespace aoti_plugins
