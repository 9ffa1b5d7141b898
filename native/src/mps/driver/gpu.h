#pragma once

#include <cstddef>
#include <string>

#include "mps/driver/objc.h"

namespace aoti_plugins::mps {

/// The GPU of this machine and the queue that all command buffers come from, for the life of the
/// process. Command buffers of one queue run in the order in which they are committed.
struct Gpu {
  Id device = nullptr;
  Id queue = nullptr;
  std::string name;
  size_t max_buffer_nbytes = 0;
};

/// The GPU, opened by the first call; null, with a reason, when there is none.
const Gpu* open_gpu() noexcept;

/// The GPU that `open_gpu()` has opened.
const Gpu& gpu() noexcept;

/// The version of macOS, as 100 * major + minor; 0 on other systems.
int macos_version() noexcept;

}  // namespace aoti_plugins::mps
