#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace aoti_plugins::runner {

/// Memory of zeros. What of it is never touched takes nothing of the machine's, however much a
/// program asks for.
class ZeroedMemory {
 public:
  /// Throws `std::bad_alloc`.
  explicit ZeroedMemory(size_t nbytes)
      : data_(static_cast<uint8_t*>(std::calloc(std::max<size_t>(nbytes, 1), 1))), nbytes_(nbytes) {
    if (data_ == nullptr) {
      throw std::bad_alloc();
    }
  }

  uint8_t* data() const { return data_.get(); }
  size_t size() const { return nbytes_; }

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t nbytes_;
};

}  // namespace aoti_plugins::runner
