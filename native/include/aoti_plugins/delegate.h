#pragma once

/// What the delegate library offers beside the backend that it registers with ExecuTorch.

#ifdef __cplusplus
extern "C" {
#endif

/// Why this thread's most recent `init` or `execute` of a delegate failed; an empty string when
/// none did. Borrowed until the next failure on this thread.
__attribute__((visibility("default"))) const char* aotip_delegate_last_error(void);

/// Forgets the reason, so that a later look tells whether something failed since.
__attribute__((visibility("default"))) void aotip_delegate_clear_error(void);

#ifdef __cplusplus
}
#endif
