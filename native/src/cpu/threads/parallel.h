#pragma once

#include <executorch/runtime/core/function_ref.h>

#include <cstdint>

namespace aoti_plugins::cpu {

/// Threads worth starting for `work`: each gets at least `work_per_thread`, which callers choose as
/// about 20 microseconds of it. 1 inside a parallel region.
int64_t threads_for(int64_t work, int64_t work_per_thread) noexcept;

/// Calls `body(0)` to `body(parts - 1)`, at most `parts` of them at a time, and waits for all of
/// them. `body` does not throw. Inside a parallel region the parts run one after another.
void parallel_for(int64_t parts, ::executorch::runtime::FunctionRef<void(int64_t)> body) noexcept;

}  // namespace aoti_plugins::cpu
