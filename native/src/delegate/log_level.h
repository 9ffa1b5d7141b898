#pragma once

namespace aoti_plugins {

/// Lets ExecuTorch's log show what the variable AOTI_PLUGINS_LOG asks for, ours included; without
/// it nothing is changed. Done when the library is loaded, and again with each delegate, as others
/// (ExecuTorch's Python extension) replace the function behind the log, too.
void follow_log_level() noexcept;

}  // namespace aoti_plugins
