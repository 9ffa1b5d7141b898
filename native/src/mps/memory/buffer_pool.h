#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "slim/status.h"

namespace aoti_plugins::mps {

/// Memory that the CPU and the GPU share. What is freed is kept, up to a bound, for the next
/// allocation of its size class. Thread-safe; lives as long as the process.
class BufferPool {
 public:
  static BufferPool& instance() noexcept;

  /// New memory for the GPU that `open_gpu()` has opened; null, with a reason, when there is not
  /// enough. Its bytes may be anything.
  void* allocate(size_t nbytes) noexcept;

  /// Takes memory of `allocate()` back that nothing uses any more.
  void deallocate(void* data, size_t nbytes) noexcept;

  /// Gives what is kept and not in use back to the system, down to a bound.
  void trim(size_t bound_nbytes) noexcept;

  /// What is allocated for `nbytes`.
  static size_t size_class(size_t nbytes) noexcept;

  /// The most bytes that may be in use, by all programs of the process together; SIZE_MAX: no
  /// limit.
  void set_limit(size_t nbytes) noexcept;
  size_t limit() const noexcept;

  /// The most bytes that are kept.
  void set_bound(size_t nbytes) noexcept;
  size_t bound() const noexcept;

  size_t used() const noexcept;
  size_t kept() const noexcept;

 private:
  BufferPool() = default;
  void* take_kept(size_t size) noexcept;
  void* make_buffer(size_t size) noexcept;
  void trim_locked(size_t bound_nbytes) noexcept;

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;  // by size class
  size_t used_ = 0;
  size_t kept_ = 0;
  size_t limit_ = SIZE_MAX;
  size_t bound_ = size_t{256} << 20;
};

}  // namespace aoti_plugins::mps
