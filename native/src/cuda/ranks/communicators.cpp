#include "cuda/ranks/communicators.h"

#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/ranks/rank_watch.h"
#include "ranks/world.h"

namespace aoti_plugins::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// The communicators of this process.
struct Communicators {
  std::mutex mutex;
  std::map<int32_t, nccl::Comm> made;  // by the group's form
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

Status find_or_make(const ranks::Group& group, int32_t gpu, nccl::Comm* ret) {
  Communicators& all = communicators();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.made.find(group.index());
    if (found != all.made.end()) {
      *ret = found->second;
      return Status::kOk;
    }
  }
  ranks::World* world = ranks::world_of(group.world_size);
  AOTIP_RETURN_IF_NULL(world);
  const nccl::Library* library = nccl::open();
  if (library == nullptr) {
    return end_for_last_failure(*world);
  }
  AOTIP_RETURN_IF_FAILED(world->check_over());
  AOTIP_RETURN_IF_FAILED(refuse_in_capture("a communicator of NCCL"));
  nccl::UniqueId id{};
  if (group.place(world->rank()) == 0) {
    AOTIP_NCCL(*library, nullptr, GetUniqueId, &id);
  }
  AOTIP_RETURN_IF_FAILED(ranks::broadcast(*world, group, 0, sizeof(id), &id, &id));
  nccl::Comm made = nullptr;
  if (make(*library, group, gpu, *world, id, &made) != Status::kOk) {
    return end_for_last_failure(*world);
  }
  const auto abort = [&all, library, made, form = group.index()] {
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      all.made.erase(form);
    }
    (void)library->CommAbort(made);  // its kernels return, and the stream goes on
  };
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.made[group.index()] = made;
  }
  if (watch_rank(*world, gpu, abort) != Status::kOk) {
    abort();
    return end_for_last_failure(*world);
  }
  *ret = made;
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

}  // namespace aoti_plugins::cuda
