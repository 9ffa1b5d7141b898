#pragma once

#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// The most bytes that a kernel copies as fast as a copy engine does.
inline constexpr size_t kKernelCopyNbytes = 4096;

/// Copies a little between page-locked and device memory by a kernel on this thread's current
/// stream. A GPU goes on from a kernel to the next one sooner than to a copy engine and back.
/// `*ret_done` says whether it did: not where it is too much, or this build has no kernels.
Status copy_by_kernel(int32_t gpu, void* to, const void* from, size_t nbytes,
                      bool* ret_done) noexcept;

}  // namespace aoti_plugins::cuda
