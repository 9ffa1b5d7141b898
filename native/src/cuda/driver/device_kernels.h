#pragma once

#include <cuda.h>

#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Our own kernels: one image for all GPUs (fatbin: a cubin for each of CMake's AOTIP_CUDA_GPUS,
/// and PTX), in this library's read-only data. Built where CMake found nvcc.

/// For which compute capability, as 10 * major + minor, the kernels were compiled that a GPU of
/// `arch` runs: that of a cubin for it, or 80, that of the PTX. From 90 on they have clusters, copy
/// by themselves and may be launched early; what a GPU could do does not matter.
uint32_t arch_of_kernels(uint32_t arch) noexcept;

/// The kernel of a name on the current GPU, loaded by the first call on each GPU and kept for the
/// life of the process. Null, with a reason, when it fails.
CUfunction device_kernel(int32_t gpu, const char* name) noexcept;

/// Launches a kernel with one thread per element (but at most as many as fill the GPU) on this
/// thread's current stream. `arguments` are the addresses of its arguments.
Status launch_elements(int32_t gpu, const char* name, int64_t numel, void** arguments) noexcept;

/// Launches a kernel with `blocks` blocks (but at most as many as fill the GPU) of `threads`
/// threads on this thread's current stream.
Status launch_blocks(int32_t gpu, const char* name, int64_t blocks, unsigned int threads,
                     void** arguments) noexcept;

/// Launches a kernel with exactly `blocks` blocks on this thread's current stream.
Status launch_exactly(int32_t gpu, const char* name, unsigned int blocks, unsigned int threads,
                      void** arguments) noexcept;

/// How wide a kernel runs.
struct Width {
  unsigned int blocks;
  unsigned int threads;
  unsigned int shared_nbytes;  ///< beside what the kernel declares; over 48 KiB is asked for
  unsigned int cluster = 1;    ///< blocks of a cluster: more than 1 only where there are clusters
};

/// Whether kernels for a GPU, and its driver, have clusters of blocks.
bool has_clusters(int32_t gpu) noexcept;

/// As `launch_exactly`, as soon as the kernel before lets it (compute capability 9.0 on), which
/// has not ended then: the kernel itself waits for what it reads of others.
Status launch_early(int32_t gpu, const char* name, const Width& width, void** arguments) noexcept;

/// As `launch_early` where it `may_begin_early`, else when the kernel before has ended.
Status launch_wide(int32_t gpu, const char* name, const Width& width, bool may_begin_early,
                   void** arguments) noexcept;

}  // namespace aoti_plugins::cuda
