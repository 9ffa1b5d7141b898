#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/libraries/xnnpack.h"
#include "cpu/math/scratch.h"

namespace aoti_plugins::cpu {

/// An array that XNNPACK may read behind: itself, or a copy where its end and what is behind it may
/// be on two pages, of which the second may not be there.
template <typename T>
class ReadableBehind {
 public:
  /// @param data null for none.
  ReadableBehind(const T* data, int64_t count) noexcept : data_(data) {
    constexpr uintptr_t kPage = 4096;  // the smallest there is
    const uintptr_t within = reinterpret_cast<uintptr_t>(data + count) % kPage;
    if (data != nullptr && (within == 0 || within + kXnnExtraNbytes > kPage)) {
      T* copy = copy_.get<T>(count + static_cast<int64_t>(kXnnExtraNbytes / sizeof(T)));
      data_ = copy;
      if (copy != nullptr) {
        std::memcpy(copy, data, static_cast<size_t>(count) * sizeof(T));
      }
    }
  }

  /// Null for null, and when there was no memory for a copy.
  const T* data() const noexcept { return data_; }

 private:
  const T* data_;
  Scratch copy_;
};

}  // namespace aoti_plugins::cpu
