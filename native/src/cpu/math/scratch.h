#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace aoti_plugins::cpu {

/// Temporary memory of one kernel call, freed at its end.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { std::free(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Memory for `count` elements, aligned to 64 bytes and not initialized; null when there is none.
  /// A second call frees what the first one returned.
  template <typename T>
  T* get(int64_t count) noexcept {
    std::free(block_);
    block_ = nullptr;
    size_t nbytes = 0;
    if (count < 0 || __builtin_mul_overflow(static_cast<size_t>(count), sizeof(T), &nbytes) ||
        posix_memalign(&block_, 64, nbytes > 0 ? nbytes : 1) != 0) {
      block_ = nullptr;
    }
    return static_cast<T*>(block_);
  }

 private:
  void* block_ = nullptr;
};

}  // namespace aoti_plugins::cpu
