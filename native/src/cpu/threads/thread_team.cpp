#include "cpu/threads/thread_team.h"

#include <executorch/runtime/platform/log.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

#include "cpu/threads/futex.h"
#include "delegate/fork_gate.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {
namespace {

/// Where this thread is.
struct Place {
  unsigned number = 0;
  unsigned size = 1;
  unsigned singles = 0;   ///< `single` constructs passed in this region
  bool parallel = false;  ///< in a region of more than one thread, this one or an outer one
};

thread_local Place place;

/// A counter that one thread can wait for: it sleeps until the others have counted down to zero.
class Countdown {
 public:
  void start(uint32_t count) noexcept { word_.store(count, std::memory_order_relaxed); }

  void down() noexcept {
    if (word_.fetch_sub(1, std::memory_order_acq_rel) == (kSleeping | 1)) {
      futex_wake(word_, 1);
    }
  }

  void wait() noexcept {
    if (spin_until([this] { return count() == 0; })) {
      return;
    }
    uint32_t seen = word_.fetch_or(kSleeping, std::memory_order_acquire) | kSleeping;
    while (seen != kSleeping) {
      futex_wait(word_, seen);
      seen = word_.load(std::memory_order_acquire);
    }
  }

 private:
  static constexpr uint32_t kSleeping = uint32_t{1} << 31;

  uint32_t count() const noexcept { return word_.load(std::memory_order_acquire) & ~kSleeping; }

  std::atomic<uint32_t> word_{0};
};

/// All threads of a region wait here for the last one. Counts rounds by two; bit 0 says that
/// somebody sleeps.
class Barrier {
 public:
  void wait(unsigned size) noexcept {
    // Cannot change before this thread has arrived.
    const uint32_t round = round_.load(std::memory_order_acquire) & ~1u;
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
      arrived_.store(0, std::memory_order_relaxed);
      if ((round_.exchange(round + 2, std::memory_order_acq_rel) & 1u) != 0) {
        futex_wake(round_, INT_MAX);
      }
      return;
    }
    const auto over = [this, round] {
      return (round_.load(std::memory_order_acquire) & ~1u) != round;
    };
    if (spin_until(over)) {
      return;
    }
    while (!over()) {
      uint32_t expected = round;
      if (round_.compare_exchange_strong(expected, round | 1u, std::memory_order_acq_rel) ||
          expected == (round | 1u)) {
        futex_wait(round_, round | 1u);
      }
    }
  }

 private:
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
};

/// How a worker is told to begin, and can be told in time that it need not.
class alignas(64) Mailbox {
 public:
  void call() noexcept {
    if (word_.exchange(kCalled, std::memory_order_acq_rel) == kSleeping) {
      futex_wake(word_, 1);
    }
  }

  /// True when the worker had not begun; it will not.
  bool revoke() noexcept {
    uint32_t expected = kCalled;
    return word_.compare_exchange_strong(expected, kIdle, std::memory_order_acq_rel);
  }

  /// Waits until this worker is called.
  void wait() noexcept {
    while (!take() && !spin_until([this] { return take(); }, kLongSpin)) {
      uint32_t expected = kIdle;
      if (word_.compare_exchange_strong(expected, kSleeping, std::memory_order_acq_rel) ||
          expected == kSleeping) {
        futex_wait(word_, kSleeping);
      }
    }
  }

 private:
  enum : uint32_t { kIdle, kCalled, kSleeping };

  bool take() noexcept {
    uint32_t expected = kCalled;
    return word_.load(std::memory_order_relaxed) == kCalled &&
           word_.compare_exchange_strong(expected, kIdle, std::memory_order_acq_rel);
  }

  std::atomic<uint32_t> word_{kIdle};
};

/// The reason of the first failure in a region on another thread than the caller's. Reasons are
/// kept per thread, and the caller is the one who is asked.
class WorkerFailure {
 public:
  void forget() noexcept { taken_.store(false, std::memory_order_relaxed); }

  /// Keeps this thread's reason, if it has one.
  void keep() noexcept {
    if (last_failure()[0] != '\0' && !taken_.exchange(true, std::memory_order_relaxed)) {
      std::snprintf(reason_, sizeof(reason_), "%s", last_failure());
    }
  }

  /// Makes what was kept the reason of this thread. All others have finished.
  void hand_over() const noexcept {
    if (taken_.load(std::memory_order_relaxed)) {
      (void)fail("%s", reason_);
    }
  }

 private:
  std::atomic<bool> taken_{false};
  char reason_[1024] = {};
};

/// Has no destructor to run and is never destroyed: its threads wait until the process ends.
struct Team {
  std::atomic<bool> taken{false};
  // Written by the thread that has taken the team, read by the workers that it calls.
  void (*body)(void*) = nullptr;
  void* data = nullptr;
  unsigned size = 1;
  unsigned threads = 1;  ///< started, the caller included
  bool can_grow = true;
  alignas(64) std::atomic<unsigned> singles{0};
  alignas(64) Countdown running;
  Barrier barrier;
  WorkerFailure failure;
  std::mutex sections[2];
  Mailbox mailboxes[kMostThreads];  ///< of thread 1 and up
};

Team team;
bool fork_is_watched = false;  // guarded by Team::taken

void* work(void* argument) {
  const auto number = static_cast<unsigned>(reinterpret_cast<uintptr_t>(argument));
  work_for_others_inside();
  for (;;) {
    team.mailboxes[number].wait();
    place = {number, team.size, 0, true};
    clear_failure();
    team.body(team.data);
    team.failure.keep();
    team.running.down();
  }
}

/// The child has one thread, whatever the team did in the parent at that moment.
void forget_team_in_child() {
  new (&team) Team();
  place = {};
}

/// Signals that the program's own threads are to handle: all but those that a fault in this thread
/// raises.
sigset_t foreign_signals() noexcept {
  sigset_t set;
  sigfillset(&set);
  for (const int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) {
    sigdelset(&set, raised);
  }
  return set;
}

/// Starts thread `number`.
bool start_thread(unsigned number) noexcept {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const sigset_t blocked = foreign_signals();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  pthread_t thread;
  const int failed =
      pthread_create(&thread, &attributes, work, reinterpret_cast<void*>(uintptr_t{number}));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    ET_LOG(Error, "thread %u does not start (%s); going on with %u", number, std::strerror(failed),
           number);
    return false;
  }
  return true;
}

/// Threads there are for a region that wants `wanted`. The caller has taken the team.
unsigned grow(unsigned wanted) noexcept {
  if (!fork_is_watched) {
    fork_is_watched = pthread_atfork(nullptr, nullptr, forget_team_in_child) == 0;
    team.can_grow = fork_is_watched;
  }
  while (team.threads < wanted && team.can_grow) {
    team.can_grow = start_thread(team.threads);
    team.threads += team.can_grow ? 1 : 0;
  }
  return std::min(wanted, team.threads);
}

bool take_team() noexcept {
  return !team.taken.load(std::memory_order_relaxed) &&
         !team.taken.exchange(true, std::memory_order_acquire);
}

/// Runs a region on `size` threads of the team that the caller has taken.
void run_region(void (*body)(void*), void* data, unsigned size, Members members) noexcept {
  team.body = body;
  team.data = data;
  team.size = size;
  team.singles.store(0, std::memory_order_relaxed);
  team.failure.forget();
  team.running.start(size - 1);
  for (unsigned number = 1; number < size; ++number) {
    team.mailboxes[number].call();
  }
  place = {0, size, 0, true};
  body(data);
  if (members == Members::kSome) {
    for (unsigned number = 1; number < size; ++number) {
      if (team.mailboxes[number].revoke()) {
        team.running.down();
      }
    }
  }
  team.running.wait();
  team.failure.hand_over();
}

}  // namespace

void run_in_team(void (*body)(void*), void* data, unsigned num_threads, Members members) noexcept {
  const Place outer = place;
  const unsigned limit = team_limit();
  const unsigned wanted = num_threads == 0 ? limit : std::min(num_threads, limit);
  if (wanted > 1 && !outer.parallel && take_team()) {
    const unsigned size = grow(wanted);
    if (size > 1) {
      run_region(body, data, size, members);
      team.taken.store(false, std::memory_order_release);
      place = outer;
      return;
    }
    team.taken.store(false, std::memory_order_release);
  }
  place = {0, 1, 0, outer.parallel};
  body(data);
  place = outer;
}

unsigned team_thread() noexcept {
  return place.number;
}
unsigned team_size() noexcept {
  return place.size;
}
bool in_team() noexcept {
  return place.parallel;
}

void team_barrier() noexcept {
  if (place.size > 1) {
    team.barrier.wait(place.size);
  }
}

bool team_single() noexcept {
  if (place.size == 1) {
    return true;
  }
  // The counter is never behind: whoever came to the constructs before this one has moved it.
  unsigned expected = place.singles++;
  return team.singles.compare_exchange_strong(expected, expected + 1, std::memory_order_acq_rel);
}

std::mutex& team_section(Section section) noexcept {
  return team.sections[static_cast<int>(section)];
}

}  // namespace aoti_plugins::cpu
