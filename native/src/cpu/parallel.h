#pragma once

#include <cstdint>

#include <executorch/runtime/core/function_ref.h>

namespace aoti_plugins::cpu {

/// Threads that `parallel_for` runs on, this one included.
int64_t thread_count() noexcept;

/// Calls `body(0)` to `body(parts - 1)` on ExecuTorch's thread pool and waits for all of them. `body` does not
/// throw. Inside a pool thread the parts run one after another.
void parallel_for(int64_t parts,
                  ::executorch::runtime::FunctionRef<void(int64_t)> body) noexcept;

}  // namespace aoti_plugins::cpu
