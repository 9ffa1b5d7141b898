#pragma once

namespace aoti_plugins {

/// Runs the thread-local destructors that the code of a loaded library has registered, on every
/// thread, and forgets them. Called before the library is unloaded, when nothing runs in it any
/// more.
void run_thread_atexit_of(void* dl_handle) noexcept;

}  // namespace aoti_plugins
