#pragma once

#include <memory>
#include <vector>

#include "delegate/delegate_device.h"
#include "delegate/delegate_option.h"
#include "delegate/shared_state.h"
#include "slim/status.h"

namespace aoti_plugins::mps {

/// The options of AotiMpsBackend: memory_limit_mib, the most memory for tensors of all programs
/// together (0: no limit), and kept_memory_mib, the most that is kept when it is free.
const std::vector<DelegateOption>& options() noexcept;

/// The state that a program is loaded with by option `shared_state`; null without one. Fails on an
/// option that there is not.
Status shared_state_of(LoadOptions specs, std::shared_ptr<SharedState>* ret) noexcept;

}  // namespace aoti_plugins::mps
