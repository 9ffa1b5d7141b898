#include "delegate/fork_gate.h"

#include <executorch/runtime/platform/log.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <mutex>
#include <new>

namespace aoti_plugins {
namespace {

/// Has no destructor to run and is never destroyed: programs may be unloaded at exit.
struct Gate {
  std::atomic<uint32_t> inside{0};
  std::atomic<bool> closed{false};
  std::mutex forking;  ///< held while a fork waits and until it is done
};

Gate gate;
std::atomic<uint32_t> generation{0};
thread_local uint32_t depth = 0;
thread_local bool closes = false;  ///< this thread's fork has closed the gate

void rest() noexcept {
  const timespec time = {0, 50'000};
  nanosleep(&time, nullptr);
}

void close_gate() {
  // Whoever is inside, or works for one who is, would wait for itself.
  if (depth > 0) {
    return;
  }
  gate.forking.lock();
  closes = true;
  gate.closed.store(true, std::memory_order_seq_cst);
  while (gate.inside.load(std::memory_order_seq_cst) > 0) {
    rest();
  }
}

void open_gate() {
  if (closes) {
    closes = false;
    gate.closed.store(false, std::memory_order_seq_cst);
    gate.forking.unlock();
  }
}

void open_gate_in_child() {
  closes = false;
  generation.fetch_add(1, std::memory_order_relaxed);
  new (&gate) Gate();
  gate.inside.store(depth > 0 ? 1 : 0, std::memory_order_seq_cst);
}

/// As the library is loaded, before any thread can be inside.
[[maybe_unused]] const bool is_watched = [] {
  if (pthread_atfork(close_gate, open_gate, open_gate_in_child) != 0) {
    ET_LOG(Error, "no memory to watch fork(): do not fork while programs are loaded or run");
    return false;
  }
  return true;
}();

}  // namespace

InsideLibrary::InsideLibrary() noexcept {
  if (depth++ > 0) {
    return;
  }
  for (;;) {
    gate.inside.fetch_add(1, std::memory_order_seq_cst);
    if (!gate.closed.load(std::memory_order_seq_cst)) {
      return;
    }
    gate.inside.fetch_sub(1, std::memory_order_seq_cst);
    const std::lock_guard<std::mutex> until_opened(gate.forking);
  }
}

InsideLibrary::~InsideLibrary() {
  if (--depth == 0) {
    gate.inside.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void work_for_others_inside() noexcept {
  ++depth;
}

uint32_t fork_generation() noexcept {
  return generation.load(std::memory_order_relaxed);
}

}  // namespace aoti_plugins
