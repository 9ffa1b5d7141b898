#pragma once

#include <cuda.h>

namespace aoti_plugins::cuda {

/// Where and how wide a kernel runs.
struct Launch {
  CUfunction function = nullptr;
  unsigned int grid[3] = {1, 1, 1};
  unsigned int block[3] = {1, 1, 1};
  unsigned int shared_nbytes = 0;
  CUstream stream = nullptr;
  unsigned int cluster = 1;  ///< blocks of a cluster, along the first dimension
};

/// Whether the driver launches kernels early, and clusters of blocks. It must be open.
bool driver_launches_early() noexcept;

/// Launches a kernel behind those in front of it on its stream; the driver must be open, and one
/// that launches clusters if there are any.
CUresult launch_in_order(const Launch& launch, void** arguments) noexcept;

/// Launches a kernel that may begin before those in front of it on its stream have ended: it waits
/// for them by itself, before it reads or writes anything that they write or read. All its blocks
/// have to, or a kernel behind it could begin too early. The driver must be open. Drivers before
/// CUDA 12.3 launch in order, and no clusters.
CUresult launch_early(const Launch& launch, void** arguments) noexcept;

}  // namespace aoti_plugins::cuda
