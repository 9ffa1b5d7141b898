#include "emulated_device.h"

#include <string.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

// After what it takes from the C library.
#include "metal_host/fiber.h"

fake_cuda::Index threadIdx;
fake_cuda::Index blockIdx;
fake_cuda::Index blockDim;
fake_cuda::Index gridDim;

namespace fake_cuda {
namespace {

constexpr size_t kSharedNbytes = size_t{227} << 10;

/// Where threads wait for each other.
struct Meeting {
  unsigned int missing = 0;
  unsigned int times = 0;
};

/// A thread of a block.
struct Thread {
  metal_host::Fiber fiber;
  std::unique_ptr<char[]> stack{new char[metal_host::kStackNbytes]};
  bool done = true;
  const Meeting* waits_at = nullptr;
  unsigned int seen_times = 0;
  const std::function<bool()>* waits_until = nullptr;
};

/// What the lanes of a warp give each other, in turns: one is still read while the other is
/// written.
struct Warp {
  Meeting meeting;
  uint64_t values[2][kLanes] = {};
};

struct Block {
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Warp> warps;
  Meeting barrier;
  Meeting barrier_of_first;
  struct alignas(128) Line {
    char bytes[128];
  };
  std::vector<Line> memory{kSharedNbytes / sizeof(Line)};
};

struct Scheduler {
  metal_host::Fiber host;  ///< of the caller
  std::vector<std::unique_ptr<Block>> cluster;
  unsigned int blocks = 0;  ///< of the cluster
  Meeting meeting;          ///< of the cluster
  Block* block = nullptr;   ///< whose thread runs
  Thread* running = nullptr;
  const std::function<void()>* body = nullptr;
};

Scheduler& scheduler() {
  static Scheduler* instance = new Scheduler();
  return *instance;
}

/// Gives the running thread's turn away.
void end_turn() {
  metal_host::switch_fiber(scheduler().running->fiber, scheduler().host);
}

void run_thread() {
  metal_host::arrived(scheduler().host);
  (*scheduler().body)();
  Thread& thread = *scheduler().running;
  thread.done = true;
  metal_host::leave_fiber(thread.fiber, scheduler().host);
}

void start(Thread& thread) {
  metal_host::prepare(thread.fiber, thread.stack.get(), run_thread);
  thread.done = false;
  thread.waits_at = nullptr;
  thread.waits_until = nullptr;
}

bool can_run(const Thread& thread) {
  return !thread.done &&
         (thread.waits_at == nullptr || thread.waits_at->times != thread.seen_times) &&
         (thread.waits_until == nullptr || (*thread.waits_until)());
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
  end_turn();
  s.running->waits_at = nullptr;
}

/// Starts the threads of a block.
void start_block(Block& block, unsigned int threads) {
  while (block.threads.size() < threads) {
    block.threads.push_back(std::make_unique<Thread>());
  }
  block.barrier = {};
  block.barrier_of_first = {};
  block.warps.assign((threads + kLanes - 1) / kLanes, Warp{});
  for (unsigned int t = 0; t < threads; ++t) {
    start(*block.threads[t]);
  }
}

/// Gives each thread of a block that does not wait a turn; false when there is none.
bool run_turns(Block& block, unsigned int threads) {
  Scheduler& s = scheduler();
  bool any = false;
  for (unsigned int t = 0; t < threads; ++t) {
    if (can_run(*block.threads[t])) {
      s.block = &block;
      s.running = block.threads[t].get();
      threadIdx.x = t;
      metal_host::switch_fiber(s.host, s.running->fiber);
      check(!metal_host::overflowed(s.running->fiber), "its variables are larger than its stack");
      any = true;
    }
  }
  return any;
}

/// Gives the threads of all blocks of a cluster, from block `first` on, a turn.
bool run_turns_of_cluster(unsigned int first, unsigned int threads) {
  bool any = false;
  for (unsigned int b = 0; b < scheduler().blocks; ++b) {
    blockIdx.x = first + b;
    any |= run_turns(*scheduler().cluster[b], threads);
  }
  return any;
}

void run_cluster(unsigned int first, unsigned int threads) {
  Scheduler& s = scheduler();
  s.meeting = {};
  for (unsigned int b = 0; b < s.blocks; ++b) {
    start_block(*s.cluster[b], threads);
  }
  while (run_turns_of_cluster(first, threads)) {
  }
  for (unsigned int i = 0; i < s.blocks * threads; ++i) {
    if (!s.cluster[i / threads]->threads[i % threads]->done) {
      std::fprintf(stderr, "thread %u of block %u waits for threads that do not come\n",
                   i % threads, first + i / threads);
      std::abort();
    }
  }
}

}  // namespace

void wait_at_barrier() {
  meet(scheduler().block->barrier, blockDim.x);
}

void wait_at_barrier(unsigned int count) {
  check(threadIdx.x < count, "a thread comes to a barrier of those before it");
  meet(scheduler().block->barrier_of_first, count);
}

void wait_until(const std::function<bool()>& is_so) {
  Scheduler& s = scheduler();
  s.running->waits_until = &is_so;
  while (!is_so()) {
    end_turn();
  }
  s.running->waits_until = nullptr;
}

void check(bool is_so, const char* message) {
  if (!is_so) {
    std::fprintf(stderr, "thread %u of block %u: %s\n", threadIdx.x, blockIdx.x, message);
    std::abort();
  }
}

void meet_cluster() {
  meet(scheduler().meeting, blockDim.x * scheduler().blocks);
}

const uint64_t* meet_lanes(uint64_t value) {
  Warp& warp = scheduler().block->warps[threadIdx.x / kLanes];
  uint64_t* const values = warp.values[warp.meeting.times % 2];
  values[threadIdx.x % kLanes] = value;
  meet(warp.meeting, kLanes);
  return values;
}

char* block_memory() {
  return scheduler().block->memory.front().bytes;
}

char* block_memory(unsigned int rank) {
  return scheduler().cluster.at(rank)->memory.front().bytes;
}

void run_blocks(const Grid& grid, const std::function<void()>& body) {
  gridDim.x = grid.blocks;
  blockDim.x = grid.threads;
  Scheduler& s = scheduler();
  s.body = &body;
  s.blocks = grid.cluster;
  while (s.cluster.size() < grid.cluster) {
    s.cluster.push_back(std::make_unique<Block>());
  }
  for (unsigned int first = 0; first < grid.blocks; first += grid.cluster) {
    run_cluster(first, grid.threads);
  }
}

}  // namespace fake_cuda
