#pragma once

#include <vector>

#include "delegate/delegate_device.h"
#include "delegate/delegate_option.h"
#include "slim/status.h"

namespace aoti_plugins::mps {

/// The options of AotiMpsBackend: memory_limit_mib, the most memory for tensors of all programs
/// together (0: no limit), and kept_memory_mib, the most that is kept when it is free.
const std::vector<DelegateOption>& options() noexcept;

/// Fails when a program is loaded with options: this device has none of its own.
Status check_load_options(LoadOptions options) noexcept;

}  // namespace aoti_plugins::mps
