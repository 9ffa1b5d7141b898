#include "cpu/threads/parallel.h"

#include <algorithm>
#include <atomic>

#include "cpu/threads/thread_team.h"

namespace aoti_plugins::cpu {

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
  // Whoever is free takes the next part, so a thread that wakes up late holds nobody up.
  struct Shared {
    ::executorch::runtime::FunctionRef<void(int64_t)> body;
    int64_t parts;
    std::atomic<int64_t> next;
  } shared{body, parts, {0}};
  const auto take_parts = [](void* data) {
    auto& s = *static_cast<Shared*>(data);
    for (int64_t part; (part = s.next.fetch_add(1, std::memory_order_relaxed)) < s.parts;) {
      s.body(part);
    }
  };
  const auto threads = static_cast<unsigned>(std::min<int64_t>(parts, kMostThreads));
  run_in_team(take_parts, &shared, threads, Members::kSome);
}

}  // namespace aoti_plugins::cpu
