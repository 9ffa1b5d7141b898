#include "cpu/parallel.h"

#include <executorch/extension/threadpool/threadpool_guard.h>
#include <executorch/runtime/kernel/thread_parallel_interface.h>

namespace aoti_plugins::cpu {

int64_t thread_count() noexcept {
  // Inside a pool thread everything runs on that thread.
  return ::executorch::extension::threadpool::NoThreadPoolGuard::is_enabled()
             ? 1
             : ::executorch::extension::get_thread_count();
}

void parallel_for(int64_t parts,
                  ::executorch::runtime::FunctionRef<void(int64_t)> body) noexcept {
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      body(part);
    }
  };
  if (parts <= 1 || !::executorch::extension::parallel_for(0, parts, 1, run)) {
    run(0, parts);
  }
}

}  // namespace aoti_plugins::cpu
