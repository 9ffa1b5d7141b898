#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace aoti_plugins::cuda {

/// Device memory outside of the pools, for what lives long: weights, planned memory. Where there is
/// none, it is tried once more with what idle programs keep. The GPU's context must be current.
CUresult allocate_device_memory(int32_t gpu, size_t nbytes, CUdeviceptr* ret) noexcept;

}  // namespace aoti_plugins::cuda
