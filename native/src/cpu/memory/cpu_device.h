#pragma once

#include "slim/device.h"

namespace aoti_plugins {

/// The CPU as a device: one index (0; -1 means the same), plain memory, host copies.
DeviceInterface& cpu_device() noexcept;

}  // namespace aoti_plugins
