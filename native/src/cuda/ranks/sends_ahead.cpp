#include "cuda/ranks/sends_ahead.h"

#include <exception>
#include <map>
#include <mutex>

#include "cuda/driver/capture.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/event.h"
#include "cuda/driver/stream.h"

namespace aoti_plugins::cuda {
namespace {

/// What a run has summed.
struct Sums {
  int32_t group = -1;  ///< of the last ones
  int32_t count = 0;
};

Sums& sums() noexcept {
  thread_local Sums instance;
  return instance;
}

/// Of one GPU, for the life of the process.
struct Beside {
  CUstream stream = nullptr;
  Event begin;
  Event end;
};

struct All {
  std::mutex mutex;
  std::map<int32_t, Beside> gpus;
};

All& all() {
  static auto* instance = new All();
  return *instance;
}

Status make(Beside& beside) {
  AOTIP_RETURN_IF_FAILED(refuse_in_capture("a stream for copies"));
  beside.begin.reset();  // of an attempt that failed
  beside.end.reset();
  AOTIP_RETURN_IF_FAILED(beside.begin.create());
  AOTIP_RETURN_IF_FAILED(beside.end.create());
  AOTIP_CU(cuStreamCreate, &beside.stream, CU_STREAM_NON_BLOCKING);
  return Status::kOk;
}

Status find(int32_t gpu, Beside** ret) {
  try {
    const std::lock_guard<std::mutex> lock(all().mutex);
    Beside& beside = all().gpus[gpu];
    AOTIP_RETURN_IF_FAILED(beside.stream == nullptr ? make(beside) : Status::kOk);
    *ret = &beside;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("a stream for copies: %s", error.what());
  }
}

}  // namespace

void begin_run_of_sums() noexcept {
  sums() = {};
}

void count_sum(const ranks::Group& group) noexcept {
  sums() = {group.index(), sums_in_a_row(group) + 1};
}

int32_t sums_in_a_row(const ranks::Group& group) noexcept {
  return sums().group == group.index() ? sums().count : 0;
}

Status copy_beside(int32_t gpu, void* to, const void* from, size_t nbytes) noexcept {
  Beside* beside = nullptr;
  AOTIP_RETURN_IF_FAILED(find(gpu, &beside));
  AOTIP_CU(cuEventRecord, beside->begin.handle(), current_stream().handle);
  AOTIP_CU(cuStreamWaitEvent, beside->stream, beside->begin.handle(), 0);
  AOTIP_CU(cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(to),
           reinterpret_cast<CUdeviceptr>(from), nbytes, beside->stream);
  return Status::kOk;
}

Status wait_for_copies_beside(int32_t gpu) noexcept {
  Beside* beside = nullptr;
  AOTIP_RETURN_IF_FAILED(find(gpu, &beside));
  AOTIP_CU(cuEventRecord, beside->end.handle(), beside->stream);
  AOTIP_CU(cuStreamWaitEvent, current_stream().handle, beside->end.handle(), 0);
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
