#pragma once

namespace aoti_plugins::cuda {

/// The function of ours that generated code means by a name: a C shim, or one of cudart's or the
/// driver's that we answer for. Null when we have none.
void* find_own_function(const char* name) noexcept;

}  // namespace aoti_plugins::cuda
