#include "cuda/ranks/rank_watch.h"

#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/driver/driver.h"
#include "cuda/driver/event.h"
#include "cuda/driver/gpu.h"
#include "cuda/memory/pinned.h"
#include "slim/later_status.h"

namespace aoti_plugins::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook(50);

/// A rank may end when it has done its part of a call: so long nobody looks whether one has.
constexpr std::chrono::milliseconds kPatience(100);

/// What is watched: a call, and the last work that was given to this process's GPU.
struct Watch {
  std::mutex mutex;
  std::vector<LetGo> let_go;
  PinnedMemory stop;
  bool has_begun = false;
  bool is_over = false;
  bool is_called = false;
  int32_t gpu = -1;
  Event last_work;
  CUstream last_stream = nullptr;
  bool is_pending = false;
  Clock::time_point since;
};

Watch& watch() {
  static auto* instance = new Watch();
  return *instance;
}

/// Ends the world because of work that does not end, and says which rank is behind.
void end_late(ranks::World& world) {
  int32_t process = 0;
  uint64_t calls = 0;
  const int32_t rank = world.rank_behind(&process, &calls);
  (void)world.end(
      "rank %d of %d (process %d) is behind: it has begun %llu calls, and rank %d waited "
      "for its %llu calls for %g s",
      rank, world.place().world_size, process, static_cast<unsigned long long>(calls), world.rank(),
      static_cast<unsigned long long>(world.own_calls()), world.place().timeout.count());
}

/// Whether a call or the last work is still going on; the lock is held.
bool is_going_on(Watch& all) {
  all.is_pending =
      all.is_pending && driver().cuEventQuery(all.last_work.handle()) == CUDA_ERROR_NOT_READY;
  return all.is_pending || all.is_called;
}

/// Whether nobody should wait any more; the lock is held.
bool is_in_vain(Watch& all, ranks::World& world) {
  if (!is_going_on(all) || Clock::now() - all.since < kPatience) {
    return false;
  }
  const auto limit = std::chrono::duration_cast<Clock::duration>(world.place().timeout);
  if (!world.is_over() && Clock::now() - all.since >= limit) {
    end_late(world);
  }
  return world.is_over();
}

int32_t* stop_word(const Watch& all) {
  return reinterpret_cast<int32_t*>(all.stop.data());
}

/// Looks now and then whether the work of this rank can come to its end.
void look(ranks::World* world, int32_t gpu, LaterStatus has_begun) {
  Watch& all = watch();
  const Status status = use_gpu(gpu);
  has_begun.set(status);
  if (status != Status::kOk) {
    (void)end_for_last_failure(*world);
    return;
  }
  for (;;) {
    std::this_thread::sleep_for(kLook);
    std::vector<LetGo> let_go;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      if (!is_in_vain(all, *world)) {
        continue;
      }
      // At once, for all kernels that look at it: what comes then may wait for them.
      __atomic_store_n(stop_word(all), 1, __ATOMIC_RELEASE);
      all.is_over = true;
      let_go.swap(all.let_go);
    }
    for (const LetGo& one : let_go) {
      one();
    }
    return;
  }
}

Status check_gpu(const Watch& all, int32_t gpu) {
  AOTIP_CHECK(all.gpu < 0 || all.gpu == gpu,
              "this rank communicates on cuda:%d, and a program is on cuda:%d", all.gpu, gpu);
  return Status::kOk;
}

/// Begins to look, unless that has been done; the lock is held.
Status begin(Watch& all, ranks::World& world, int32_t gpu) {
  AOTIP_RETURN_IF_FAILED(check_gpu(all, gpu));
  if (all.has_begun) {
    return Status::kOk;
  }
  AOTIP_RETURN_IF_FAILED(all.last_work.create());
  AOTIP_RETURN_IF_FAILED(all.stop.allocate(sizeof(int32_t)));
  *stop_word(all) = 0;
  const LaterStatus has_begun;
  std::thread(look, &world, gpu, has_begun).detach();
  (void)has_begun.get();  // its context is set before anybody waits for the GPU
  all.has_begun = true;
  all.gpu = gpu;
  return Status::kOk;
}

}  // namespace

Status watch_rank(ranks::World& world, int32_t gpu, const int32_t** ret_stop) noexcept {
  Watch& all = watch();
  try {
    const std::lock_guard<std::mutex> lock(all.mutex);
    AOTIP_RETURN_IF_FAILED(begin(all, world, gpu));
    *ret_stop = stop_word(all);
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("watching this rank: %s", error.what());
  }
}

Status watch_rank(ranks::World& world, int32_t gpu, LetGo let_go) noexcept {
  const int32_t* stop = nullptr;
  AOTIP_RETURN_IF_FAILED(watch_rank(world, gpu, &stop));
  Watch& all = watch();
  const std::lock_guard<std::mutex> lock(all.mutex);
  AOTIP_RETURN_IF_FAILED(world.check_over());
  try {
    all.let_go.push_back(std::move(let_go));
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("watching this rank: %s", error.what());
  }
}

Status end_for_last_failure(ranks::World& world) noexcept {
  return world.end("rank %d of %d: %s", world.rank(), world.place().world_size,
                   std::string(last_failure()).c_str());
}

Status begin_rank_call(int32_t gpu, CUstream stream) noexcept {
  if (ranks::World* world = ranks::world()) {
    world->count_call();
  }
  Watch& all = watch();
  const std::lock_guard<std::mutex> lock(all.mutex);
  AOTIP_RETURN_IF_FAILED(check_gpu(all, gpu));
  if (all.is_pending && all.last_stream != stream) {
    AOTIP_CU(cuStreamWaitEvent, stream, all.last_work.handle(), 0);
  }
  all.is_called = true;
  all.since = Clock::now();
  return Status::kOk;
}

Status end_rank_call(int32_t gpu, CUstream stream) noexcept {
  Watch& all = watch();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.is_called = false;
  if (!all.has_begun || all.is_over || all.gpu != gpu) {
    return Status::kOk;
  }
  AOTIP_CU(cuEventRecord, all.last_work.handle(), stream);
  all.last_stream = stream;
  all.is_pending = true;
  all.since = Clock::now();
  return Status::kOk;
}

void leave_rank_call() noexcept {
  const std::lock_guard<std::mutex> lock(watch().mutex);
  watch().is_called = false;
}

Status check_ranks() noexcept {
  ranks::World* world = ranks::world();
  return world != nullptr ? world->check_over() : Status::kFailed;
}

}  // namespace aoti_plugins::cuda
