#include "cuda/upload.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "cuda/driver.h"
#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/pinned.h"

namespace aoti_plugins::cuda {
namespace {

// Measured on an H100 with a file in the page cache: a thread reads 8 GB/s, eight of them 37 to 46,
// more of them hardly more; a lane takes a millisecond to make.
constexpr size_t kChunkNbytes = size_t{1} << 20;
constexpr size_t kMaxLanes = 8;
constexpr size_t kNbytesForLane = size_t{16} << 20;

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

/// What the lanes share of one copy.
struct Uploader::Job {
  char* dst = nullptr;
  const char* src = nullptr;
  size_t nbytes = 0;
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string reason;

  void fail_with(const char* text) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!failed.exchange(true)) {
      reason = text;
    }
  }
};

/// A stream with two buffers: one is filled while the other is on its way.
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

  /// Copies chunks until none is left.
  Status run(Job& job) noexcept {
    while (!job.failed.load()) {
      const size_t offset = job.next.fetch_add(kChunkNbytes);
      if (offset >= job.nbytes) {
        break;
      }
      const size_t nbytes = std::min(kChunkNbytes, job.nbytes - offset);
      AOTIP_RETURN_IF_FAILED(
          slots_[turn_ % 2].copy(job.dst + offset, job.src + offset, nbytes, stream_));
      ++turn_;
    }
    return Status::kOk;
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

Uploader::Uploader(int32_t gpu) : gpu_(gpu), done_(finished_.get_future()) {}

Uploader::~Uploader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->thread.joinable()) {
      lane->thread.join();
    }
  }
  const ContextGuard guard;
  (void)use_gpu(gpu_);
  (void)finish();
  lanes_.clear();
}

Status Uploader::add(void* dst, const void* src, size_t nbytes) noexcept {
  added_nbytes_ += nbytes;
  const size_t cores = std::max<size_t>(std::thread::hardware_concurrency(), 2);
  const size_t lanes = std::min({kMaxLanes, cores, added_nbytes_ / kNbytesForLane});
  if (lanes < 2) {
    return copy_now(dst, src, nbytes);
  }
  Job job;
  job.dst = static_cast<char*>(dst);
  job.src = static_cast<const char*>(src);
  job.nbytes = nbytes;
  try {
    AOTIP_RETURN_IF_FAILED(add_lanes(lanes));
    return run_lanes(job);
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status Uploader::finish() noexcept {
  if (is_finished_) {
    return Status::kOk;
  }
  Status status = Status::kOk;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    status = lane->wait() == Status::kOk ? status : Status::kFailed;
  }
  is_finished_ = true;
  finished_.set_value();
  return status;
}

Status Uploader::copy_now(void* dst, const void* src, size_t nbytes) noexcept {
  AOTIP_CU(cuMemcpy, reinterpret_cast<CUdeviceptr>(dst), reinterpret_cast<CUdeviceptr>(src),
           nbytes);
  // A copy from pageable memory may return before the device has all of it.
  AOTIP_CU(cuStreamSynchronize, nullptr);
  return Status::kOk;
}

Status Uploader::add_lanes(size_t count) {
  while (lanes_.size() < count) {
    auto lane = std::make_unique<Lane>();
    AOTIP_RETURN_IF_FAILED(lane->create());
    lanes_.push_back(std::move(lane));
    if (lanes_.size() > 1) {
      Lane& last = *lanes_.back();
      try {
        last.thread = std::thread([this, &last, begun = begun_] { work(last, begun); });
      } catch (const std::exception&) {
        // Fewer threads do as well.
      }
    }
  }
  return Status::kOk;
}

/// Copies in all lanes, or without other threads where these would have nothing to do.
Status Uploader::run_lanes(Job& job) {
  if (job.nbytes <= kChunkNbytes) {
    run_lane(*lanes_[0], job);
    AOTIP_CHECK(!job.failed.load(), "%s", job.reason.c_str());
    return Status::kOk;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = &job;
    ++begun_;
    working_ = static_cast<size_t>(
        std::count_if(lanes_.begin(), lanes_.end(),
                      [](const std::unique_ptr<Lane>& lane) { return lane->thread.joinable(); }));
  }
  changed_.notify_all();
  run_lane(*lanes_[0], job);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return working_ == 0; });
  job_ = nullptr;
  AOTIP_CHECK(!job.failed.load(), "%s", job.reason.c_str());
  return Status::kOk;
}

/// A lane's thread: takes part in each job after the first `begun`.
void Uploader::work(Lane& lane, uint64_t begun) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || begun_ != begun; });
    if (closing_) {
      return;
    }
    begun = begun_;
    Job& job = *job_;
    lock.unlock();
    run_lane(lane, job);
    lock.lock();
    if (--working_ == 0) {
      changed_.notify_all();
    }
  }
}

void Uploader::run_lane(Lane& lane, Job& job) noexcept {
  try {
    const ContextGuard guard;
    if (use_gpu(gpu_) != Status::kOk || lane.run(job) != Status::kOk) {
      job.fail_with(last_failure());
    }
  } catch (const std::exception& error) {
    job.fail_with(error.what());
  }
}

}  // namespace aoti_plugins::cuda
