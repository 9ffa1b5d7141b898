#include "cpu/threads/parallel.h"

#include <algorithm>
#include <atomic>

#include "cpu/threads/thread_team.h"

namespace aoti_plugins::cpu {

// Further threads of a region have no parts of their own.
constexpr int64_t kMostShares = 64;

int64_t threads_for(int64_t work, int64_t work_per_thread) noexcept {
  if (work < 2 * work_per_thread || in_team()) {
    return 1;
  }
  return std::min<int64_t>(team_limit(), work / work_per_thread);
}

void parallel_for(int64_t parts, ::executorch::runtime::FunctionRef<void(int64_t)> body) noexcept {
  if (parts <= 1 || in_team()) {
    for (int64_t part = 0; part < parts; ++part) {
      body(part);
    }
    return;
  }
  // Each thread begins with parts of its own, the same ones of every region with as many: what it
  // has written is in its cache. Then whoever is free takes parts of others, so a thread that wakes
  // up late holds nobody up.
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };
  struct Shared {
    ::executorch::runtime::FunctionRef<void(int64_t)> body;
    int64_t count;
    Share shares[kMostShares];
  } shared;
  shared.body = body;
  shared.count = std::min<int64_t>({parts, team_limit(), kMostShares});
  for (int64_t i = 0; i < shared.count; ++i) {
    shared.shares[i].next.store(parts * i / shared.count, std::memory_order_relaxed);
    shared.shares[i].end = parts * (i + 1) / shared.count;
  }
  const auto take_parts = [](void* data) {
    auto& s = *static_cast<Shared*>(data);
    for (int64_t i = 0; i < s.count; ++i) {
      Share& share = s.shares[(team_thread() + i) % s.count];
      for (int64_t part; (part = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        s.body(part);
      }
    }
  };
  const auto threads = static_cast<unsigned>(std::min<int64_t>(parts, kMostThreads));
  run_in_team(take_parts, &shared, threads, Members::kSome);
}

}  // namespace aoti_plugins::cpu
