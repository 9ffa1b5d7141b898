#pragma once

/// The OpenMP runtime of a blob: what compilers call for the pragmas that Inductor writes, answered
/// by the delegate.
///
/// Included by `blob_prelude.h`. The names of gcc's libgomp, or of clang's libomp
/// (`blob_openmp_clang.h`), are defined inside the blob, weak and hidden, and forward to the
/// `aotip_omp_*` functions of the delegate's library, which run everything on one team of threads.
/// So a blob needs neither library, and one that is in the process already is not called by
/// accident. A construct that is not served here (dynamic schedules, tasks) fails when the blob is
/// linked.

#ifdef __cplusplus
extern "C" {

/// Calls `body(data)` on several threads at the same time, the calling one among them, and returns
/// when all have finished. `body` does not throw. Inside a region, or while another thread's region
/// runs, `body` runs once.
///
/// @param num_threads most threads; 0 for as many as `aotip_omp_max_threads()` says.
__attribute__((visibility("default"))) void aotip_omp_parallel(void (*body)(void*), void* data,
                                                               unsigned num_threads) noexcept;

/// Waits until all threads of the region have come here. Returns at once outside a region.
__attribute__((visibility("default"))) void aotip_omp_barrier(void) noexcept;

/// Number of this thread in its region, from 0; 0 outside a region.
__attribute__((visibility("default"))) int aotip_omp_thread_num(void) noexcept;

/// Threads of this region; 1 outside a region.
__attribute__((visibility("default"))) int aotip_omp_num_threads(void) noexcept;

/// Most threads that a region started here would have. Does not change while no region is entered
/// or left.
__attribute__((visibility("default"))) int aotip_omp_max_threads(void) noexcept;

/// 1 inside a region of more than one thread, else 0.
__attribute__((visibility("default"))) int aotip_omp_in_parallel(void) noexcept;

/// 1 for the one thread of the region that executes this `single` construct, 0 for the others. All
/// threads of the region come to the same constructs in the same order.
__attribute__((visibility("default"))) int aotip_omp_single(void) noexcept;

/// Enters (1) or leaves (0) the critical section of the process. Not recursive.
__attribute__((visibility("default"))) void aotip_omp_critical(int enter) noexcept;

/// Enters (1) or leaves (0) the section for updates that the machine has no atomic instruction for.
__attribute__((visibility("default"))) void aotip_omp_atomic(int enter) noexcept;

#ifndef AOTI_PLUGINS_RUNTIME  // the runtime itself has no pragmas
#define AOTIP_IN_BLOB __attribute__((weak, visibility("hidden")))

// `flags` would ask for a binding of threads to processors.
AOTIP_IN_BLOB void GOMP_parallel(void (*body)(void*), void* data, unsigned num_threads,
                                 unsigned flags) noexcept {
  (void)flags;
  aotip_omp_parallel(body, data, num_threads);
}
AOTIP_IN_BLOB void GOMP_barrier(void) noexcept {
  aotip_omp_barrier();
}
AOTIP_IN_BLOB bool GOMP_single_start(void) noexcept {
  return aotip_omp_single() != 0;
}
AOTIP_IN_BLOB void GOMP_critical_start(void) noexcept {
  aotip_omp_critical(1);
}
AOTIP_IN_BLOB void GOMP_critical_end(void) noexcept {
  aotip_omp_critical(0);
}
AOTIP_IN_BLOB void GOMP_atomic_start(void) noexcept {
  aotip_omp_atomic(1);
}
AOTIP_IN_BLOB void GOMP_atomic_end(void) noexcept {
  aotip_omp_atomic(0);
}
AOTIP_IN_BLOB int omp_get_thread_num(void) noexcept {
  return aotip_omp_thread_num();
}
AOTIP_IN_BLOB int omp_get_num_threads(void) noexcept {
  return aotip_omp_num_threads();
}
AOTIP_IN_BLOB int omp_get_max_threads(void) noexcept {
  return aotip_omp_max_threads();
}
AOTIP_IN_BLOB int omp_in_parallel(void) noexcept {
  return aotip_omp_in_parallel();
}
// The size of the team belongs to the process, not to a model.
AOTIP_IN_BLOB void omp_set_num_threads(int num_threads) noexcept {
  (void)num_threads;
}

#undef AOTIP_IN_BLOB
#endif

}  // extern "C"

#if defined(__clang__) && !defined(AOTI_PLUGINS_RUNTIME)
#include <aoti_plugins/blob_openmp_clang.h>
#endif
#endif
