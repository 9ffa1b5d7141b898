#pragma once

#include <cstddef>

#include "mps/driver/kernel.h"
#include "slim/status.h"

namespace aoti_plugins::mps {

/// The steps of one dispatch, on the current stream of this thread: a kernel, its arguments by
/// index, a grid. `Launch` and the shims of generated code are made of them.

/// Where bytes of an argument that is no buffer end.
inline constexpr size_t kMaxBytes = 4096;

Status begin_kernel(const Kernel& kernel) noexcept;

/// Binds a tensor of the GPU, or a small one of the CPU, whose bytes are copied.
Status bind_tensor(unsigned index, const Tensor& tensor) noexcept;

/// Binds memory of the GPU. Without bytes, memory that nobody looks at is bound.
Status bind_memory(unsigned index, const void* data, size_t nbytes) noexcept;

/// Binds a copy of at most `kMaxBytes`.
Status bind_bytes(unsigned index, const void* data, size_t nbytes) noexcept;

Status dispatch_threads(const Kernel& kernel, Size grid, Size group) noexcept;
Status dispatch_groups(const Kernel& kernel, Size groups, Size group) noexcept;

}  // namespace aoti_plugins::mps
