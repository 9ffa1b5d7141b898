#pragma once

#include <executorch/runtime/backend/options.h>

#include <memory>
#include <vector>

#include "delegate/delegate.h"
#include "delegate/payload.h"
#include "delegate/shared_state.h"
#include "slim/status.h"

namespace aoti_plugins {

/// Options of a load without those that mean the same on all devices.
using DeviceOptions = std::vector<::executorch::runtime::BackendOption>;

/// The state of a delegate whose model writes to buffers, else null: by option `shared_state` that
/// with its id, or one of its own for 0; without it the program's. Other options are the device's.
Status take_state_option(const DelegateLoad& load, const Payload& payload, DeviceOptions* ret,
                         std::shared_ptr<SharedState>* ret_state);

}  // namespace aoti_plugins
