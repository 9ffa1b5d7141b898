#include "mps/memory/buffer_pool.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>

#include "mps/driver/gpu.h"
#include "mps/driver/metal_values.h"
#include "mps/memory/buffer_index.h"

namespace aoti_plugins::mps {
namespace {

constexpr size_t kSmallest = 256;

}  // namespace

BufferPool& BufferPool::instance() noexcept {
  static BufferPool* pool = new BufferPool();
  return *pool;
}

/// A multiple of an eighth of the next lower power of two: at most an eighth is wasted.
size_t BufferPool::size_class(size_t nbytes) noexcept {
  if (nbytes <= kSmallest) {
    return kSmallest;
  }
  const int bits = 63 - __builtin_clzll(nbytes);
  const size_t step = std::max(kSmallest, (size_t{1} << bits) / 8);
  return nbytes <= SIZE_MAX - step ? (nbytes + step - 1) / step * step : nbytes;
}

void* BufferPool::allocate(size_t nbytes) noexcept {
  const size_t size = size_class(nbytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (size > limit_ || used_ > limit_ - size) {
    (void)fail("%zu bytes and the %zu in use exceed the limit of %zu bytes", size, used_, limit_);
    return nullptr;
  }
  void* data = take_kept(size);
  if (data == nullptr) {
    data = make_buffer(size);
  }
  if (data == nullptr && kept_ > 0) {
    trim_locked(0);
    data = make_buffer(size);
  }
  used_ += data != nullptr ? size : 0;
  return data;
}

void BufferPool::deallocate(void* data, size_t nbytes) noexcept {
  const size_t size = size_class(nbytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  used_ -= size;
  try {
    if (kept_ + size <= bound_) {
      free_[size].push_back(data);
      kept_ += size;
      return;
    }
  } catch (const std::exception&) {
    // No memory to remember it.
  }
  (void)BufferIndex::instance().remove(data);
}

void* BufferPool::take_kept(size_t size) noexcept {
  const auto found = free_.find(size);
  if (found == free_.end() || found->second.empty()) {
    return nullptr;
  }
  void* data = found->second.back();
  found->second.pop_back();
  kept_ -= size;
  return data;
}

void* BufferPool::make_buffer(size_t size) noexcept {
  if (size > gpu().max_buffer_nbytes) {
    (void)fail("a buffer of this GPU has at most %zu bytes", gpu().max_buffer_nbytes);
    return nullptr;
  }
  Owned buffer(send<Id, UInteger, UInteger>(gpu().device, selectors().newBuffer, size,
                                            kResourceStorageModeShared));
  if (!buffer) {
    (void)fail("the GPU gives no buffer of %zu bytes, %zu are in use", size, used_);
    return nullptr;
  }
  void* data = nullptr;
  (void)BufferIndex::instance().add(std::move(buffer), size, &data);
  return data;
}

void BufferPool::trim(size_t bound_nbytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  trim_locked(bound_nbytes);
}

/// The largest go first.
void BufferPool::trim_locked(size_t bound_nbytes) noexcept {
  while (kept_ > bound_nbytes && !free_.empty()) {
    auto& [size, blocks] = *free_.rbegin();
    while (kept_ > bound_nbytes && !blocks.empty()) {
      (void)BufferIndex::instance().remove(blocks.back());
      blocks.pop_back();
      kept_ -= size;
    }
    if (blocks.empty()) {
      free_.erase(std::prev(free_.end()));
    }
  }
}

void BufferPool::set_limit(size_t nbytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  limit_ = nbytes;
}

size_t BufferPool::limit() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return limit_;
}

void BufferPool::set_bound(size_t nbytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  bound_ = nbytes;
  trim_locked(nbytes);
}

size_t BufferPool::bound() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bound_;
}

size_t BufferPool::used() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return used_;
}

size_t BufferPool::kept() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kept_;
}

}  // namespace aoti_plugins::mps
