// What can be seen of the stand-in for Metal from outside, besides Metal's own names: counters and
// faults to inject. Plain C; Python finds them with ctypes.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define METAL_STAND_IN_EXPORT __attribute__((visibility("default")))

// Counters since the start, or since metal_stand_in_reset.
METAL_STAND_IN_EXPORT long metal_stand_in_dispatches(void);
METAL_STAND_IN_EXPORT long metal_stand_in_commits(void);
METAL_STAND_IN_EXPORT long metal_stand_in_libraries(void);  // compiled from source
METAL_STAND_IN_EXPORT long metal_stand_in_pipelines(void);
METAL_STAND_IN_EXPORT long metal_stand_in_buffers(void);  // allocated or wrapped
METAL_STAND_IN_EXPORT long metal_stand_in_wrapped(void);  // newBufferWithBytesNoCopy
METAL_STAND_IN_EXPORT void metal_stand_in_reset(void);    // counters, errors and faults

/// Objects that are alive, but for the device and classes: what leaks, once all is released.
METAL_STAND_IN_EXPORT long metal_stand_in_live_objects(void);
METAL_STAND_IN_EXPORT long metal_stand_in_live_of(const char* class_name);
METAL_STAND_IN_EXPORT size_t metal_stand_in_allocated_nbytes(void);

/// Misuse so far, and the last of it. It aborts, unless AOTI_PLUGINS_METAL_MISUSE is "count".
METAL_STAND_IN_EXPORT long metal_stand_in_errors(void);
METAL_STAND_IN_EXPORT const char* metal_stand_in_last_error(void);

// Faults to inject: each happens once, at the nth call from now on (1: the next).
METAL_STAND_IN_EXPORT void metal_stand_in_fail_buffer(long nth);
METAL_STAND_IN_EXPORT void metal_stand_in_fail_library(long nth);
METAL_STAND_IN_EXPORT void metal_stand_in_fail_pipeline(long nth);
METAL_STAND_IN_EXPORT void metal_stand_in_fail_command_buffer(long nth);  // its error, when done
/// Bytes that all buffers together may have; 0: no limit. AOTI_PLUGINS_METAL_MEMORY at the start.
METAL_STAND_IN_EXPORT void metal_stand_in_limit_memory(size_t nbytes);
/// Threads per threadgroup that pipelines allow at most; 0: as their kernels say.
METAL_STAND_IN_EXPORT void metal_stand_in_limit_threads(size_t threads);

#ifdef __cplusplus
}
#endif
