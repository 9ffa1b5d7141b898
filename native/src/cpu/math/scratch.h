#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/memory/kept_blocks.h"

namespace aoti_plugins::cpu {

/// Temporary memory of one kernel call, freed at its end.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { give_block(block_, nbytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Memory for `count` elements, aligned to 64 bytes and not initialized; null when there is none.
  /// A second call frees what the first one returned.
  template <typename T>
  T* get(int64_t count) noexcept {
    give_block(block_, nbytes_);
    block_ = nullptr;
    if (count >= 0 && !__builtin_mul_overflow(static_cast<size_t>(count), sizeof(T), &nbytes_)) {
      block_ = take_block(nbytes_);
    }
    return static_cast<T*>(block_);
  }

 private:
  void* block_ = nullptr;
  size_t nbytes_ = 0;
};

}  // namespace aoti_plugins::cpu
