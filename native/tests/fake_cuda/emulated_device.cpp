#include "emulated_device.h"

#include <ucontext.h>

#include <memory>
#include <vector>

fake_cuda::Index threadIdx;
fake_cuda::Index blockIdx;
fake_cuda::Index blockDim;
fake_cuda::Index gridDim;

namespace fake_cuda {
namespace {

constexpr size_t kStackNbytes = size_t{64} << 10;

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStackNbytes]};
  bool done = true;
};

struct Scheduler {
  ucontext_t context{};
  std::vector<std::unique_ptr<Fiber>> fibers;
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
  makecontext(&fiber.context, run_thread, 0);
}

void run_block(unsigned int threads) {
  Scheduler& s = scheduler();
  while (s.fibers.size() < threads) {
    s.fibers.push_back(std::make_unique<Fiber>());
  }
  for (unsigned int t = 0; t < threads; ++t) {
    start(*s.fibers[t]);
  }
  for (bool any = true; any;) {
    any = false;
    for (unsigned int t = 0; t < threads; ++t) {
      if (!s.fibers[t]->done) {
        s.running = s.fibers[t].get();
        threadIdx.x = t;
        (void)swapcontext(&s.context, &s.running->context);
        any = true;
      }
    }
  }
}

}  // namespace

void wait_at_barrier() {
  (void)swapcontext(&scheduler().running->context, &scheduler().context);
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
