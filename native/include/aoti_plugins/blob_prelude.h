#pragma once

/// Force-included (`-include aoti_plugins/blob_prelude.h`) into every file of a blob.
///
/// Five things a blob needs to live beside libtorch and to leave no trace when it is unloaded:
/// linker names of its own for the C shims, the runtime's threads for its loops (`blob_openmp.h`),
/// failures that come back from them (`blob_failures.h`), marks by which a profile knows its
/// kernels (`blob_kernels.h`), and thread-local destructors that the runtime runs when the blob
/// goes. With the C++ runtime's own `__cxa_thread_atexit` a blob stays
/// mapped until every thread that ran it has ended.

#include <aoti_plugins/blob_failures.h>
#include <aoti_plugins/blob_kernels.h>
#include <aoti_plugins/blob_openmp.h>
#include <aoti_plugins/shim_link_names.h>
#include <aoti_plugins/vector_exp.h>
#include <aoti_plugins/vector_math_link_names.h>

#ifdef __cplusplus
extern "C" {

/// Registers a destructor for an object in the calling thread's thread-local memory. It runs when
/// the thread ends or when the blob that `dso_handle` belongs to is unloaded, whichever is first.
/// Returns 0.
__attribute__((visibility("default"))) int aotip_thread_atexit(void (*destructor)(void*),
                                                               void* object, void* dso_handle);

#ifndef AOTI_PLUGINS_RUNTIME  // the runtime itself keeps the C++ runtime's function
__attribute__((weak, visibility("hidden"))) int __cxa_thread_atexit(void (*destructor)(void*),
                                                                    void* object,
                                                                    void* dso_handle) noexcept {
  return aotip_thread_atexit(destructor, object, dso_handle);
}
#endif

}  // extern "C"
#endif
