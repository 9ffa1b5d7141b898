#pragma once

#include "slim/device.h"

namespace aoti_plugins::mps {

/// Apple GPUs as a device: one index, 0; memory that the CPU sees too.
///
/// Memory belongs to the current stream of the thread that allocates it. What the CPU does to it,
/// copies for instance, waits for the kernels of this thread's program.
DeviceInterface& mps_device() noexcept;

}  // namespace aoti_plugins::mps
