#include "cuda/upload.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "cuda/driver.h"
#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/pinned.h"

namespace aoti_plugins::cuda {
namespace {

constexpr size_t kChunkNbytes = size_t{4} << 20;
constexpr size_t kMaxLanes = 4;

/// A page-locked buffer and the event of its last copy.
class Slot {
 public:
  Status create() noexcept {
    AOTIP_RETURN_IF_FAILED(memory_.allocate(kChunkNbytes));
    return event_.create();
  }
  Status copy(char* dst, const char* src, size_t nbytes, CUstream stream) noexcept {
    AOTIP_CU(cuEventSynchronize, event_.handle());  // a new event is done
    std::memcpy(memory_.data(), src, nbytes);
    AOTIP_CU(cuMemcpyHtoDAsync, reinterpret_cast<CUdeviceptr>(dst), memory_.data(), nbytes, stream);
    AOTIP_CU(cuEventRecord, event_.handle(), stream);
    return Status::kOk;
  }

 private:
  PinnedMemory memory_;
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
    AOTIP_RETURN_IF_FAILED(slots_[0].create());
    return slots_[1].create();
  }

  /// Copies chunks until none is left, and waits for them.
  Status run(Job& job) noexcept {
    Status status = Status::kOk;
    for (size_t turn = 0; status == Status::kOk && !job.failed.load(); ++turn) {
      const size_t offset = job.next.fetch_add(kChunkNbytes);
      if (offset >= job.nbytes) {
        break;
      }
      const size_t nbytes = std::min(kChunkNbytes, job.nbytes - offset);
      status = slots_[turn % 2].copy(job.dst + offset, job.src + offset, nbytes, stream_);
    }
    AOTIP_CU(cuStreamSynchronize, stream_);
    return status;
  }

 private:
  CUstream stream_ = nullptr;
  Slot slots_[2];
};

Uploader::Uploader(int32_t gpu) noexcept : gpu_(gpu) {}

Uploader::~Uploader() {
  const ContextGuard guard;
  (void)use_gpu(gpu_);
  lanes_.clear();
}

Status Uploader::copy(void* dst, const void* src, size_t nbytes) noexcept {
  if (nbytes < 2 * kChunkNbytes) {
    AOTIP_CU(cuMemcpy, reinterpret_cast<CUdeviceptr>(dst), reinterpret_cast<CUdeviceptr>(src),
             nbytes);
    // A copy from pageable memory may return before the device has all of it.
    AOTIP_CU(cuStreamSynchronize, nullptr);
    return Status::kOk;
  }
  Job job;
  job.dst = static_cast<char*>(dst);
  job.src = static_cast<const char*>(src);
  job.nbytes = nbytes;
  const size_t cores = std::max<size_t>(std::thread::hardware_concurrency(), 1);
  try {
    return copy_in_lanes(job, std::min({kMaxLanes, cores, nbytes / kChunkNbytes}));
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status Uploader::add_lanes(size_t count) {
  while (lanes_.size() < count) {
    auto lane = std::make_unique<Lane>();
    AOTIP_RETURN_IF_FAILED(lane->create());
    lanes_.push_back(std::move(lane));
  }
  return Status::kOk;
}

Status Uploader::copy_in_lanes(Job& job, size_t count) {
  AOTIP_RETURN_IF_FAILED(add_lanes(count));
  std::vector<std::thread> workers;
  try {
    for (size_t i = 1; i < count; ++i) {
      workers.emplace_back([this, &job, lane = lanes_[i].get()] { run_lane(*lane, job); });
    }
  } catch (const std::exception&) {
    // Fewer threads do as well.
  }
  run_lane(*lanes_[0], job);
  for (std::thread& worker : workers) {
    worker.join();
  }
  AOTIP_CHECK(!job.failed.load(), "%s", job.reason.c_str());
  return Status::kOk;
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
