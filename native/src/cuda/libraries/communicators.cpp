#include "cuda/libraries/communicators.h"

#include <chrono>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cuda/driver/capture.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/event.h"
#include "cuda/driver/gpu.h"
#include "ranks/world.h"

namespace aoti_plugins::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook(50);

/// The communicators of this process, and the last work that was given to its GPU.
struct Communicators {
  std::mutex mutex;
  std::map<int32_t, nccl::Comm> made;  // by the group's form
  bool is_aborted = false;
  bool is_watched = false;
  int32_t gpu = -1;
  Event last_work;
  bool is_pending = false;
  Clock::time_point since;
};

Communicators& communicators() {
  static auto* instance = new Communicators();
  return *instance;
}

/// What a thread that makes a communicator leaves behind; shared, for it may never come back.
struct Making {
  std::mutex mutex;
  bool is_done = false;
  nccl::Result result = nccl::kSuccess;
  Status status = Status::kOk;
  std::string reason;
  nccl::Comm comm = nullptr;
};

/// Makes a communicator on a thread of its own: NCCL waits for ranks that have ended, too.
Status make(const nccl::Library& library, const ranks::Group& group, int32_t gpu,
            ranks::World& world, const nccl::UniqueId& id, nccl::Comm* ret) {
  const auto making = std::make_shared<Making>();
  const auto size = static_cast<int>(group.size);
  const int place = group.place(world.rank());
  std::thread([making, &library, size, place, id, gpu] {
    nccl::Comm comm = nullptr;
    const Status status = use_gpu(gpu);
    const nccl::Result result =
        status == Status::kOk ? library.CommInitRank(&comm, size, id, place) : nccl::kSuccess;
    const std::lock_guard<std::mutex> lock(making->mutex);
    making->status = status;
    making->reason = status == Status::kOk ? "" : last_failure();
    making->result = result;
    making->comm = comm;
    making->is_done = true;
  }).detach();
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(world.place().timeout);
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(making->mutex);
      if (making->is_done) {
        AOTIP_CHECK(making->status == Status::kOk, "%s", making->reason.c_str());
        if (making->result != nccl::kSuccess) {
          return nccl::fail_nccl(library, "ncclCommInitRank", making->result, nullptr);
        }
        *ret = making->comm;
        return Status::kOk;
      }
    }
    if (world.is_over()) {
      return Status::kFailed;
    }
    if (Clock::now() >= end) {
      return fail("NCCL did not make a communicator of %d ranks within %g s", size,
                  world.place().timeout.count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
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

/// Whether the last work is still going on; the lock is held.
bool is_going_on(Communicators& all) {
  return all.is_pending && driver().cuEventQuery(all.last_work.handle()) == CUDA_ERROR_NOT_READY;
}

/// Looks now and then whether the work of this rank can come to its end.
void watch(ranks::World* world, const nccl::Library* library, int32_t gpu,
           std::promise<void> has_begun) {
  Communicators& all = communicators();
  const Status status = use_gpu(gpu);
  has_begun.set_value();
  if (status != Status::kOk) {
    (void)world->end("rank %d of %d: %s", world->rank(), world->place().world_size,
                     std::string(last_failure()).c_str());
    return;
  }
  for (;;) {
    std::this_thread::sleep_for(kLook);
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!is_going_on(all)) {
      all.is_pending = false;
      continue;
    }
    const auto limit = std::chrono::duration_cast<Clock::duration>(world->place().timeout);
    if (!world->is_over() && Clock::now() - all.since >= limit) {
      end_late(*world);
    }
    if (world->is_over()) {
      for (const auto& [form, comm] : all.made) {
        (void)library->CommAbort(comm);  // its kernels return, and the stream goes on
      }
      all.made.clear();
      all.is_aborted = true;
      return;
    }
  }
}

Status find_or_make(const ranks::Group& group, int32_t gpu, nccl::Comm* ret) {
  Communicators& all = communicators();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    AOTIP_CHECK(all.gpu < 0 || all.gpu == gpu,
                "this rank's communicators are on cuda:%d, and a program is on cuda:%d", all.gpu,
                gpu);
    const auto found = all.made.find(group.index());
    if (found != all.made.end()) {
      *ret = found->second;
      return Status::kOk;
    }
  }
  ranks::World* world = ranks::world_of(group.world_size);
  const nccl::Library* library = world != nullptr ? nccl::open() : nullptr;
  if (library == nullptr) {
    return world != nullptr
               ? world->end("rank %d of %d: %s", world->rank(), world->place().world_size,
                            std::string(last_failure()).c_str())
               : Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(world->check_over());
  AOTIP_RETURN_IF_FAILED(refuse_in_capture("a communicator of NCCL"));
  nccl::UniqueId id{};
  if (group.place(world->rank()) == 0) {
    AOTIP_NCCL(*library, nullptr, GetUniqueId, &id);
  }
  AOTIP_RETURN_IF_FAILED(ranks::broadcast(*world, group, 0, sizeof(id), &id, &id));
  if (make(*library, group, gpu, *world, id, ret) != Status::kOk) {
    return world->end("rank %d of %d: %s", world->rank(), world->place().world_size,
                      std::string(last_failure()).c_str());
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.made[group.index()] = *ret;
  all.gpu = gpu;
  if (!all.is_watched) {
    AOTIP_RETURN_IF_FAILED(all.last_work.create());
    std::promise<void> has_begun;
    std::future<void> begun = has_begun.get_future();
    std::thread(watch, world, library, gpu, std::move(has_begun)).detach();
    begun.wait();  // its context is set before anybody waits for the GPU
    all.is_watched = true;
  }
  return Status::kOk;
}

}  // namespace

Status communicator_of(const ranks::Group& group, int32_t gpu, nccl::Comm* ret) noexcept {
  try {
    return find_or_make(group, gpu, ret);
  } catch (const std::exception& error) {
    return fail("making a communicator of NCCL: %s", error.what());
  }
}

void begin_rank_call() noexcept {
  if (ranks::World* world = ranks::world()) {
    world->count_call();
  }
}

Status end_rank_call(int32_t gpu, CUstream stream) noexcept {
  Communicators& all = communicators();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.is_watched || all.is_aborted || all.gpu != gpu) {
    return Status::kOk;
  }
  AOTIP_CU(cuEventRecord, all.last_work.handle(), stream);
  all.is_pending = true;
  all.since = Clock::now();
  return Status::kOk;
}

Status check_ranks() noexcept {
  ranks::World* world = ranks::world();
  return world != nullptr ? world->check_over() : Status::kFailed;
}

}  // namespace aoti_plugins::cuda
