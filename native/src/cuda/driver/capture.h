#pragma once

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Whether a graph is captured on this thread's current stream. Meanwhile nothing may be made that
/// loads code or takes memory by itself, as libraries do for a handle or a plan.
Status is_captured(bool* ret) noexcept;

/// Fails if a graph is captured: `what` cannot be made now, but may be at a later call.
Status refuse_in_capture(const char* what) noexcept;

}  // namespace aoti_plugins::cuda
