#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Device memory of one GPU, from a stream-ordered pool of our own: memory that is freed stays with
/// the pool, so that the next allocation asks the system for nothing. Thread-safe; lives as long as
/// the process.
class MemoryPool {
 public:
  /// The pool of a GPU, made by the first call; null, with a reason, when it fails.
  static MemoryPool* of(int32_t gpu) noexcept;

  /// Memory for work on `stream`; null, with a reason, when there is none or the limit is reached.
  /// The GPU's context must be current.
  void* allocate(size_t nbytes, CUstream stream) noexcept;

  /// Gives memory back once what is on `stream` is done.
  void deallocate(void* ptr, size_t nbytes, CUstream stream) noexcept;

  /// Returns what is free to the system, but keeps `keep_nbytes`.
  void trim(size_t keep_nbytes) noexcept;

  /// Bytes that are allocated now.
  size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }

  /// The most bytes that may be allocated on each GPU, by all programs of the process together;
  /// SIZE_MAX: no limit.
  static void set_limit(size_t nbytes) noexcept;
  static size_t limit() noexcept;

  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

 private:
  MemoryPool() = default;
  Status create(int32_t gpu) noexcept;
  bool reserve(size_t nbytes) noexcept;

  CUmemoryPool pool_ = nullptr;  // null: the driver has no pools for this GPU
  std::atomic<size_t> used_{0};
};

}  // namespace aoti_plugins::cuda
