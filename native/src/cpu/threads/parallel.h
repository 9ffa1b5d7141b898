#pragma once

#include <executorch/runtime/core/function_ref.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace aoti_plugins::cpu {

/// Threads worth starting for `work`: each gets at least `work_per_thread`, which callers choose as
/// about 20 microseconds of it. 1 inside a parallel region.
int64_t threads_for(int64_t work, int64_t work_per_thread) noexcept;

/// Calls `body(0)` to `body(parts - 1)`, at most `parts` of them at a time, and waits for all of
/// them. `body` does not throw. Inside a parallel region the parts run one after another.
void parallel_for(int64_t parts, ::executorch::runtime::FunctionRef<void(int64_t)> body) noexcept;

/// As `parallel_for()` where there is more than one thread, else one part after another on this one
/// and in no region. `body` returns whether it succeeded; so does this, when all did.
template <typename Body>
bool parallel_all(int64_t threads, int64_t parts, const Body& body) noexcept {
  std::atomic<bool> failed{false};
  const auto run = [&](int64_t part) {
    if (!body(part)) {
      failed.store(true, std::memory_order_relaxed);
    }
  };
  if (threads > 1) {
    parallel_for(parts, run);
  } else {
    for (int64_t part = 0; part < parts; ++part) {
      run(part);
    }
  }
  return !failed.load(std::memory_order_relaxed);
}

/// As `parallel_all()` for many small items: each thread takes neighbours, `count` in all.
template <typename Body>
bool parallel_shares(int64_t threads, int64_t count, const Body& body) noexcept {
  const int64_t parts = std::min(threads, count);
  return parallel_all(parts, parts, [&](int64_t part) {
    bool succeeded = true;
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      succeeded = body(i) && succeeded;
    }
    return succeeded;
  });
}

}  // namespace aoti_plugins::cpu
