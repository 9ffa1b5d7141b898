#include "cuda/driver/stream.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"

namespace aoti_plugins::cuda {
namespace {

constexpr size_t kGranularity = 512;
constexpr size_t kLargeNbytes = size_t{32} << 20;
constexpr size_t kLargeGranularity = size_t{2} << 20;

/// The size that a block for `nbytes` has: eight sizes per power of two, so that blocks fit again
/// where shapes change, and little is lost.
size_t block_nbytes(size_t nbytes) {
  size_t step = kGranularity;
  if (nbytes >= kLargeNbytes) {
    step = kLargeGranularity;
  } else {
    while (step * 16 <= nbytes) {
      step *= 2;
    }
  }
  return nbytes <= SIZE_MAX - step ? (nbytes + step - 1) / step * step : nbytes;
}

/// All streams there are.
struct Streams {
  std::mutex mutex;
  std::vector<Stream*> all;
};

Streams& streams() {
  static auto* there = new Streams();  // outlives whatever is destroyed late
  return *there;
}

thread_local CurrentStream current;

}  // namespace

CurrentStream& current_stream() noexcept {
  return current;
}

std::shared_ptr<Stream> Stream::create(int32_t gpu, bool for_graphs) noexcept {
  try {
    MemoryPool* pool = MemoryPool::of(gpu);
    if (pool == nullptr || use_gpu(gpu) != Status::kOk) {
      return nullptr;
    }
    std::shared_ptr<Stream> stream(new Stream());
    stream->for_graphs_ = for_graphs;
    const CUresult code = driver().cuStreamCreate(
        &stream->own_, for_graphs ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    if (code != CUDA_SUCCESS) {
      (void)fail_driver("cuStreamCreate", code);
      return nullptr;
    }
    stream->handle_ = stream->own_;
    stream->gpu_ = gpu;
    stream->pool_ = pool;
    Streams& there = streams();
    const std::lock_guard<std::mutex> lock(there.mutex);
    there.all.push_back(stream.get());
    return stream;
  } catch (const std::exception& error) {
    (void)fail("making a stream: %s", error.what());
    return nullptr;
  }
}

Stream::~Stream() {
  if (own_ == nullptr) {
    return;
  }
  const ContextGuard guard;
  if (use_gpu(gpu_) != Status::kOk) {
    (void)delist();
    return;
  }
  pool_->deallocate(workspace_, workspace_nbytes_, own_);
  for (const auto& [ptr, nbytes] : old_workspaces_) {
    pool_->deallocate(ptr, nbytes, own_);
  }
  release_kept();
  wait();
  fault_.reset();
  AOTIP_CU_LOG(cuStreamDestroy, own_);
  if (delist()) {
    pool_->trim(0);
  }
}

bool Stream::delist() noexcept {
  Streams& there = streams();
  const std::lock_guard<std::mutex> lock(there.mutex);
  there.all.erase(std::remove(there.all.begin(), there.all.end(), this), there.all.end());
  return std::none_of(there.all.begin(), there.all.end(),
                      [&](const Stream* one) { return one->gpu_ == gpu_; });
}

std::vector<std::shared_ptr<Stream>> Stream::all_of(int32_t gpu) {
  std::vector<std::shared_ptr<Stream>> found;
  Streams& there = streams();
  const std::lock_guard<std::mutex> lock(there.mutex);
  // Room first: a reference that an exception drops could be the last one, whose stream locks
  // again.
  found.reserve(there.all.size());
  for (Stream* one : there.all) {
    if (one->gpu_ == gpu && !one->for_graphs_) {
      found.push_back(one->weak_from_this().lock());
    }
  }
  return found;
}

void Stream::release_all_kept(int32_t gpu) noexcept {
  try {
    for (const std::shared_ptr<Stream>& one : all_of(gpu)) {
      if (one != nullptr) {  // null: it is being destroyed
        one->release_kept();
        AOTIP_CU_LOG(cuStreamSynchronize, one->own_);
      }
    }
  } catch (const std::exception& error) {
    ET_LOG(Error, "memory of idle programs is not released: %s", error.what());
  }
  if (MemoryPool* pool = MemoryPool::of(gpu)) {
    pool->trim(0);
  }
}

void* Stream::take_kept(size_t size) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = kept_.find(size);
  if (found == kept_.end() || found->second.empty()) {
    return nullptr;
  }
  void* ptr = found->second.back();
  found->second.pop_back();
  return ptr;
}

void* Stream::make_block(size_t size) noexcept {
  if (launcher_ != nullptr) {
    // A pool that has to grow asks the system, which a thread that captures may only so.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    AOTIP_CU_LOG(cuThreadExchangeStreamCaptureMode, &mode);
    void* const ptr = pool_->allocate(size, launcher_->own_);
    AOTIP_CU_LOG(cuThreadExchangeStreamCaptureMode, &mode);
    return ptr;
  }
  if (void* ptr = pool_->allocate(size, own_)) {
    return ptr;
  }
  // Once more with everything that is free, on any stream and in the pool. What graphs use is not.
  wait();
  release_all_kept(gpu_);
  return pool_->allocate(size, own_);
}

void* Stream::take_served(size_t nbytes) noexcept {
  for (const AllocationLog::Served& served : log_->served) {
    if (served.ordinal == log_->made.size() && served.nbytes == nbytes) {
      const std::lock_guard<std::mutex> lock(mutex_);
      try {
        served_.push_back(served.memory);
      } catch (const std::exception&) {
        return nullptr;  // no host memory to remember it
      }
      return served.memory;
    }
  }
  return nullptr;
}

void* Stream::allocate(size_t nbytes) noexcept {
  const size_t size = block_nbytes(nbytes);
  void* ptr = log_ != nullptr ? take_served(nbytes) : nullptr;
  if (ptr == nullptr) {
    ptr = take_kept(size);
  }
  if (ptr == nullptr) {
    ptr = make_block(size);
  }
  if (log_ != nullptr) {
    try {
      log_->made.emplace_back(ptr, nbytes);
    } catch (const std::exception&) {
      log_ = nullptr;  // what follows stays unknown
    }
  }
  if (ptr != nullptr) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (live_++ == 0) {
      self_ = shared_from_this();
    }
  }
  return ptr;
}

void Stream::deallocate(void* ptr, size_t nbytes) noexcept {
  if (ptr == nullptr) {
    return;
  }
  const size_t size = block_nbytes(nbytes);
  std::shared_ptr<Stream> last;  // declared first: dropped when the lock is free again
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--live_ == 0) {
    last = std::move(self_);
  }
  const auto served = std::find(served_.begin(), served_.end(), ptr);
  if (served != served_.end()) {
    served_.erase(served);
    return;
  }
  try {
    kept_[size].push_back(ptr);
  } catch (const std::exception&) {
    pool_->deallocate(ptr, size, own_);  // no host memory to remember it
  }
}

void Stream::release_kept() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [size, blocks] : kept_) {
    for (void* ptr : blocks) {
      pool_->deallocate(ptr, size, own_);
    }
  }
  kept_.clear();
}

void* Stream::workspace(size_t nbytes) noexcept {
  if (nbytes > workspace_nbytes_) {
    void* larger = make_block(nbytes);
    if (larger == nullptr) {
      return nullptr;
    }
    if (for_graphs_ && workspace_ != nullptr) {
      old_workspaces_.emplace_back(workspace_, workspace_nbytes_);
    } else {
      pool_->deallocate(workspace_, workspace_nbytes_, own_);
    }
    workspace_ = larger;
    workspace_nbytes_ = nbytes;
  }
  return workspace_;
}

Status Stream::fault_word(int32_t** ret) noexcept {
  if (!fault_.has_value()) {
    fault_.emplace();
    if (fault_->allocate(sizeof(int32_t)) != Status::kOk) {
      fault_.reset();
      return Status::kFailed;
    }
    std::memset(fault_->data(), 0, sizeof(int32_t));
  }
  *ret = reinterpret_cast<int32_t*>(fault_->data());
  return Status::kOk;
}

Status Stream::check_fault() noexcept {
  if (!fault_.has_value()) {
    return Status::kOk;
  }
  volatile int32_t* word = reinterpret_cast<int32_t*>(fault_->data());
  const int32_t fault = *word;
  *word = 0;
  AOTIP_CHECK(fault == 0, "an index is out of range; elements at such indices are left out");
  return Status::kOk;
}

void Stream::use_default_stream(bool wanted) noexcept {
  handle_ = wanted ? nullptr : own_;
  default_in_flight_ = default_in_flight_ || wanted;
}

Status Stream::synchronize() noexcept {
  AOTIP_CU(cuStreamSynchronize, own_);
  if (default_in_flight_) {
    AOTIP_CU(cuStreamSynchronize, nullptr);
    default_in_flight_ = handle_ == nullptr;
  }
  return Status::kOk;
}

void Stream::wait() noexcept {
  AOTIP_CU_LOG(cuStreamSynchronize, own_);
  if (default_in_flight_) {
    AOTIP_CU_LOG(cuStreamSynchronize, nullptr);
    default_in_flight_ = handle_ == nullptr;
  }
}

}  // namespace aoti_plugins::cuda
