#include "cuda/memory/upload.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>

#include "cuda/driver/driver.h"
#include "cuda/driver/event.h"
#include "cuda/driver/gpu.h"
#include "cuda/memory/pinned.h"
#include "delegate/fork_gate.h"

namespace aoti_plugins::cuda {

using ::executorch::runtime::FreeableBuffer;

namespace {

// Eight threads read a file from the page cache nearly as fast as a GPU takes it. To make a lane
// takes about as long as the driver takes to copy a few MiB.
constexpr size_t kChunkNbytes = size_t{1} << 20;
constexpr size_t kMaxLanes = 8;
constexpr size_t kNbytesForLane = size_t{16} << 20;

// Enough to read while the next source is opened.
constexpr size_t kAheadNbytes = size_t{32} << 20;

/// A part of page-locked memory and the event of its last copy.
class Slot {
 public:
  Status create(char* memory) noexcept {
    memory_ = memory;
    return event_.create();
  }
  Status copy(char* dst, const char* src, size_t nbytes, CUstream stream) noexcept {
    AOTIP_CU(cuEventSynchronize, event_.handle());  // a new event is done
    std::memcpy(memory_, src, nbytes);
    AOTIP_CU(cuMemcpyHtoDAsync, reinterpret_cast<CUdeviceptr>(dst), memory_, nbytes, stream);
    AOTIP_CU(cuEventRecord, event_.handle(), stream);
    return Status::kOk;
  }

 private:
  char* memory_ = nullptr;
  Event event_;
};

}  // namespace

/// What was added, and how far it has been read.
struct Uploader::Source {
  FreeableBuffer bytes;
  char* dst = nullptr;
  size_t nbytes = 0;
  size_t taken_nbytes = 0;
  size_t read_nbytes = 0;
};

struct Uploader::Chunk {
  Source* source = nullptr;
  size_t offset = 0;
  size_t nbytes = 0;
};

/// A stream with two buffers, one of which is filled while the other is on its way, and the thread
/// that fills them.
class Uploader::Lane {
 public:
  Lane() = default;
  ~Lane() {
    if (stream_ != nullptr) {
      AOTIP_CU_LOG(cuStreamDestroy, stream_);
    }
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Status create() noexcept {
    AOTIP_CU(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
    AOTIP_RETURN_IF_FAILED(memory_.allocate(2 * kChunkNbytes));
    AOTIP_RETURN_IF_FAILED(slots_[0].create(memory_.data()));
    return slots_[1].create(memory_.data() + kChunkNbytes);
  }

  Status copy(char* dst, const char* src, size_t nbytes) noexcept {
    return slots_[turn_++ % 2].copy(dst, src, nbytes, stream_);
  }

  /// Waits for what was copied.
  Status wait() noexcept {
    AOTIP_CU(cuStreamSynchronize, stream_);
    return Status::kOk;
  }

  std::thread thread;

 private:
  CUstream stream_ = nullptr;
  PinnedMemory memory_;
  Slot slots_[2];
  size_t turn_ = 0;
};

Uploader::Uploader(int32_t gpu)
    : gpu_(gpu),
      max_lanes_(std::min<size_t>(kMaxLanes, std::max(std::thread::hardware_concurrency(), 2u))) {}

Uploader::~Uploader() {
  const ContextGuard guard;
  (void)use_gpu(gpu_);
  (void)finish();
  {
    const Lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->thread.joinable()) {
      lane->thread.join();
    }
  }
  lanes_.clear();
}

Status Uploader::add(std::shared_ptr<const void> owner, void* dst, FreeableBuffer&& source,
                     size_t nbytes) noexcept {
  try {
    added_nbytes_ += nbytes;
    if (added_nbytes_ >= 2 * kNbytesForLane) {
      add_lanes(added_nbytes_ / kNbytesForLane);
    }
    if (lanes_.empty()) {
      const FreeableBuffer read(std::move(source));
      return copy_now(dst, read.data(), nbytes);
    }
    owners_.push_back(std::move(owner));
    Lock lock(mutex_);
    sources_.push_back({std::move(source), static_cast<char*>(dst), nbytes});
    unread_nbytes_ += nbytes;
    changed_.notify_all();
    help_until(kAheadNbytes, lock);
    AOTIP_CHECK(!failed(), "%s", failure_);
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status Uploader::finish() noexcept {
  if (finished_) {
    return done_.get();
  }
  Lock lock(mutex_);
  help_until(0, lock);
  changed_.wait(lock, [this] { return copying_ == 0; });
  drop_read(lock);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->wait() != Status::kOk) {
      note_failure();
    }
  }
  const Status status = failed() ? fail("%s", failure_) : Status::kOk;
  owners_.clear();
  finished_ = true;
  done_.set(status);
  return status;
}

Status Uploader::copy_now(void* dst, const void* src, size_t nbytes) noexcept {
  AOTIP_CU(cuMemcpy, reinterpret_cast<CUdeviceptr>(dst), reinterpret_cast<CUdeviceptr>(src),
           nbytes);
  // A copy from pageable memory may return before the device has all of it.
  AOTIP_CU(cuStreamSynchronize, nullptr);
  return Status::kOk;
}

/// Adds lanes up to `count`, or as many as there can be: without any, copies are slower.
void Uploader::add_lanes(size_t count) {
  while (lanes_.size() < std::min(count, max_lanes_)) {
    auto lane = std::make_unique<Lane>();
    if (lane->create() != Status::kOk) {
      ET_LOG(Info, "weights are read by %zu threads: %s", lanes_.size(), last_failure());
      max_lanes_ = lanes_.size();
      return;
    }
    lanes_.push_back(std::move(lane));
    if (lanes_.size() > 1) {
      Lane& last = *lanes_.back();
      try {
        last.thread = std::thread([this, &last] { work(last); });
      } catch (const std::exception&) {
        // Fewer threads do as well.
      }
    }
  }
}

/// Takes part until no more than `unread_nbytes` are left to read, or something fails; frees what
/// has been read.
void Uploader::help_until(size_t unread_nbytes, Lock& lock) noexcept {
  while (unread_nbytes_ > unread_nbytes && !failed()) {
    Chunk chunk;
    if (take(&chunk)) {
      copy(*lanes_[0], chunk, lock);
    } else {
      changed_.wait(lock);
    }
    drop_read(lock);
  }
}

/// The next chunk that nobody reads yet, if there is one.
bool Uploader::take(Chunk* ret) noexcept {
  if (failed()) {
    return false;
  }
  for (Source& source : sources_) {
    if (source.taken_nbytes < source.nbytes) {
      *ret = {&source, source.taken_nbytes,
              std::min(kChunkNbytes, source.nbytes - source.taken_nbytes)};
      source.taken_nbytes += ret->nbytes;
      ++copying_;
      return true;
    }
  }
  return false;
}

void Uploader::copy(Lane& lane, const Chunk& chunk, Lock& lock) noexcept {
  Source& source = *chunk.source;
  lock.unlock();
  const Status status =
      lane.copy(source.dst + chunk.offset,
                static_cast<const char*>(source.bytes.data()) + chunk.offset, chunk.nbytes);
  lock.lock();
  --copying_;
  source.read_nbytes += chunk.nbytes;
  unread_nbytes_ -= chunk.nbytes;
  if (status != Status::kOk) {
    note_failure();
  }
  changed_.notify_all();
}

/// A lane's thread.
void Uploader::work(Lane& lane) noexcept {
  work_for_others_inside();
  const ContextGuard guard;
  const Status ready = use_gpu(gpu_);
  Lock lock(mutex_);
  if (ready != Status::kOk) {
    note_failure();
  }
  while (!closing_) {
    Chunk chunk;
    if (take(&chunk)) {
      copy(lane, chunk, lock);
    } else {
      changed_.wait(lock);
    }
  }
}

/// Frees sources that have been read, all of them where that ends early.
void Uploader::drop_read(Lock& lock) noexcept {
  std::list<Source> read;
  const bool all = failed() && copying_ == 0;
  while (!sources_.empty() && (all || sources_.front().read_nbytes == sources_.front().nbytes)) {
    read.splice(read.end(), sources_, sources_.begin());
  }
  if (read.empty()) {
    return;
  }
  lock.unlock();
  read.clear();
  lock.lock();
}

void Uploader::note_failure() noexcept {
  if (!failed()) {
    (void)std::snprintf(failure_, sizeof(failure_), "%s", last_failure());
  }
}

}  // namespace aoti_plugins::cuda
