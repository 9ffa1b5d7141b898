#pragma once

#include <vector>

#include "delegate/delegate_option.h"

namespace aoti_plugins::cuda {

/// The options of AotiCudaBackend: memory_limit_mib, the most device memory of the pool of each GPU
/// (0: no limit), and allow_tf32.
const std::vector<DelegateOption>& options() noexcept;

}  // namespace aoti_plugins::cuda
