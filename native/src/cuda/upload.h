#pragma once

#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Copies host bytes to memory of a GPU, whose context must be current, and waits until they are
/// there. Large ones go through several page-locked buffers that threads of their own fill, so that
/// reading the file and copying to the device overlap.
Status upload(void* dst, const void* src, size_t nbytes, int32_t gpu) noexcept;

}  // namespace aoti_plugins::cuda
