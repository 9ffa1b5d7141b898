#include "emulated_device.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

fake_cuda::Index threadIdx;
fake_cuda::Index blockIdx;
fake_cuda::Index blockDim;
fake_cuda::Index gridDim;

namespace fake_cuda {
namespace {

constexpr size_t kStackNbytes = size_t{64} << 10;

/// Where threads wait for each other.
struct Meeting {
  unsigned int missing = 0;
  unsigned int times = 0;
};

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStackNbytes]};
  bool done = true;
  const Meeting* waits_at = nullptr;
  unsigned int seen_times = 0;
};

/// What the lanes of a warp give each other, in turns: one is still read while the other is
/// written.
struct Warp {
  Meeting meeting;
  uint64_t values[2][kLanes] = {};
};

struct Scheduler {
  ucontext_t context{};
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  Meeting barrier;
  Fiber* running = nullptr;
  const std::function<void()>* body = nullptr;
};

Scheduler& scheduler() {
  static Scheduler* instance = new Scheduler();
  return *instance;
}

void run_thread() {
  (*scheduler().body)();
  scheduler().running->done = true;
}

void start(Fiber& fiber) {
  (void)getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackNbytes;
  fiber.context.uc_link = &scheduler().context;
  fiber.done = false;
  fiber.waits_at = nullptr;
  makecontext(&fiber.context, run_thread, 0);
}

bool can_run(const Fiber& fiber) {
  return !fiber.done && (fiber.waits_at == nullptr || fiber.waits_at->times != fiber.seen_times);
}

/// Comes to a meeting of `count` threads.
void meet(Meeting& meeting, unsigned int count) {
  if (meeting.missing == 0) {
    meeting.missing = count;
  }
  if (--meeting.missing == 0) {
    ++meeting.times;
    return;
  }
  Scheduler& s = scheduler();
  s.running->waits_at = &meeting;
  s.running->seen_times = meeting.times;
  (void)swapcontext(&s.running->context, &s.context);
  s.running->waits_at = nullptr;
}

/// Starts the threads of a block.
void start_block(unsigned int threads) {
  Scheduler& s = scheduler();
  while (s.fibers.size() < threads) {
    s.fibers.push_back(std::make_unique<Fiber>());
  }
  s.barrier = {};
  s.warps.assign((threads + kLanes - 1) / kLanes, Warp{});
  for (unsigned int t = 0; t < threads; ++t) {
    start(*s.fibers[t]);
  }
}

/// Gives each thread that does not wait a turn; false when there is none.
bool run_turns(unsigned int threads) {
  Scheduler& s = scheduler();
  bool any = false;
  for (unsigned int t = 0; t < threads; ++t) {
    if (can_run(*s.fibers[t])) {
      s.running = s.fibers[t].get();
      threadIdx.x = t;
      (void)swapcontext(&s.context, &s.running->context);
      any = true;
    }
  }
  return any;
}

void run_block(unsigned int threads) {
  start_block(threads);
  while (run_turns(threads)) {
  }
  for (unsigned int t = 0; t < threads; ++t) {
    if (!scheduler().fibers[t]->done) {
      std::fprintf(stderr, "thread %u of block %u waits for threads that do not come\n", t,
                   blockIdx.x);
      std::abort();
    }
  }
}

}  // namespace

void wait_at_barrier() {
  meet(scheduler().barrier, blockDim.x);
}

const uint64_t* meet_lanes(uint64_t value) {
  Warp& warp = scheduler().warps[threadIdx.x / kLanes];
  uint64_t* const values = warp.values[warp.meeting.times % 2];
  values[threadIdx.x % kLanes] = value;
  meet(warp.meeting, kLanes);
  return values;
}

void run_blocks(unsigned int blocks, unsigned int threads, const std::function<void()>& body) {
  gridDim.x = blocks;
  blockDim.x = threads;
  scheduler().body = &body;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    run_block(threads);
  }
}

}  // namespace fake_cuda
