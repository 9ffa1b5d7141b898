#pragma once

#include <vector>

#include "delegate/delegate_device.h"
#include "delegate/delegate_option.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// The options of AotiCudaBackend: memory_limit_mib, the most device memory of the pool of each GPU
/// (0: no limit), allow_tf32, cuda_graphs, seed, and own_streams.
const std::vector<DelegateOption>& options() noexcept;

inline constexpr char kGraphsOption[] = "cuda_graphs";

/// Whether calls of a program become CUDA graphs: as it is loaded with option `cuda_graphs`, else
/// as the process says, else as the program does. Fails on an option that there is not.
Status wants_graphs(uint32_t flags, LoadOptions specs, bool* ret) noexcept;

/// Whether calls with inputs on the GPU run on streams of their delegates, as others do.
bool uses_own_streams() noexcept;

}  // namespace aoti_plugins::cuda
