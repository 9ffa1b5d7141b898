#include "mps/driver/stream.h"

#include <cstdio>
#include <exception>
#include <utility>

#include "mps/driver/gpu.h"
#include "mps/memory/buffer_pool.h"

namespace aoti_plugins::mps {

std::shared_ptr<Stream> Stream::create() noexcept {
  if (open_gpu() == nullptr) {
    return nullptr;
  }
  try {
    return std::shared_ptr<Stream>(new Stream());
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
    return nullptr;
  }
}

Stream::~Stream() {
  commands_.abandon();
  release_kept();
  if (fault_word_ != nullptr) {
    BufferPool::instance().deallocate(fault_word_, sizeof(*fault_word_));
  }
}

void* Stream::allocate(size_t nbytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  void* data = nullptr;
  const auto kept = kept_.find(BufferPool::size_class(nbytes));
  if (kept != kept_.end() && !kept->second.empty()) {
    data = kept->second.back();
    kept->second.pop_back();
  } else {
    data = BufferPool::instance().allocate(nbytes);
  }
  if (data != nullptr && live_++ == 0) {
    self_ = shared_from_this();
  }
  return data;
}

void Stream::deallocate(void* data, size_t nbytes) noexcept {
  std::shared_ptr<Stream> last;  // may destroy this stream, so after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    kept_[BufferPool::size_class(nbytes)].push_back(data);
  } catch (const std::exception&) {
    // No memory to remember it: it stays allocated.
  }
  if (--live_ == 0) {
    last = std::move(self_);
  }
}

void Stream::release_kept() noexcept {
  for (auto& [size, blocks] : kept_) {
    for (void* data : blocks) {
      BufferPool::instance().deallocate(data, size);
    }
  }
  kept_.clear();
}

Status Stream::fault_word(int32_t** ret) noexcept {
  if (fault_word_ == nullptr) {
    fault_word_ = static_cast<int32_t*>(BufferPool::instance().allocate(sizeof(*fault_word_)));
    AOTIP_RETURN_IF_NULL(fault_word_);
    *fault_word_ = 0;
  }
  *ret = fault_word_;
  return Status::kOk;
}

/// What kernels left there, which the next ones do not see. The GPU is idle.
Status Stream::take_fault_word() noexcept {
  const int32_t fault = fault_word_ != nullptr ? std::exchange(*fault_word_, 0) : 0;
  AOTIP_CHECK(fault == 0, "an index is out of range; elements at such indices are left out");
  return Status::kOk;
}

Status Stream::finish() noexcept {
  Status status = commands_.finish();
  const Status indices = take_fault_word();
  status = status == Status::kOk ? indices : status;
  if (status != Status::kOk) {
    note_fault();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  release_kept();
  return status;
}

void Stream::abandon() noexcept {
  commands_.abandon();
  if (fault_word_ != nullptr) {
    *fault_word_ = 0;
  }
  fault_[0] = '\0';
  const std::lock_guard<std::mutex> lock(mutex_);
  release_kept();
}

void Stream::note_fault() noexcept {
  if (fault_[0] == '\0') {
    std::snprintf(fault_, sizeof(fault_), "%s",
                  last_failure()[0] != '\0' ? last_failure() : "a call for a kernel failed");
  }
}

Status Stream::check_fault() const noexcept {
  AOTIP_CHECK(fault_[0] == '\0', "%s", fault_);
  return Status::kOk;
}

Stream*& current_stream() noexcept {
  static thread_local Stream* current = nullptr;
  return current;
}

Status require_stream(Stream** ret) noexcept {
  *ret = current_stream();
  AOTIP_CHECK(*ret != nullptr,
              "no program runs on this thread, so there is nothing to give "
              "the GPU's work to");
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
