#include "cuda/upload.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver.h"
#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/pinned.h"

namespace aoti_plugins::cuda {
namespace {

constexpr size_t kChunkNbytes = size_t{4} << 20;
constexpr size_t kMaxWorkers = 4;
// Below this, page-locking buffers costs more than it saves.
constexpr size_t kPlainNbytes = size_t{16} << 20;

/// What the workers of one upload share.
struct Job {
  char* dst = nullptr;
  const char* src = nullptr;
  size_t nbytes = 0;
  int32_t gpu = 0;
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

Status copy_chunks(Job& job, CUstream stream) {
  Slot slots[2];
  AOTIP_RETURN_IF_FAILED(slots[0].create());
  AOTIP_RETURN_IF_FAILED(slots[1].create());
  Status status = Status::kOk;
  for (size_t turn = 0; status == Status::kOk && !job.failed.load(); ++turn) {
    const size_t offset = job.next.fetch_add(kChunkNbytes);
    if (offset >= job.nbytes) {
      break;
    }
    const size_t nbytes = std::min(kChunkNbytes, job.nbytes - offset);
    status = slots[turn % 2].copy(job.dst + offset, job.src + offset, nbytes, stream);
  }
  // The buffers may only go when nothing reads them any more.
  AOTIP_CU(cuStreamSynchronize, stream);
  return status;
}

Status work(Job& job) {
  AOTIP_RETURN_IF_FAILED(use_gpu(job.gpu));
  CUstream stream = nullptr;
  AOTIP_CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  const Status status = copy_chunks(job, stream);
  AOTIP_CU_LOG(cuStreamDestroy, stream);
  return status;
}

void run_worker(Job& job) noexcept {
  try {
    const ContextGuard guard;
    if (work(job) != Status::kOk) {
      job.fail_with(last_failure());
    }
  } catch (const std::exception& error) {
    job.fail_with(error.what());
  }
}

}  // namespace

Status upload(void* dst, const void* src, size_t nbytes, int32_t gpu) noexcept {
  if (nbytes < kPlainNbytes) {
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
  job.gpu = gpu;
  std::vector<std::thread> workers;
  const size_t cores = std::max<size_t>(std::thread::hardware_concurrency(), 1);
  try {
    for (size_t i = 1; i < std::min(kMaxWorkers, cores); ++i) {
      workers.emplace_back([&job] { run_worker(job); });
    }
  } catch (const std::exception&) {
    // Fewer threads do as well.
  }
  run_worker(job);
  for (std::thread& worker : workers) {
    worker.join();
  }
  AOTIP_CHECK(!job.failed.load(), "%s", job.reason.c_str());
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
