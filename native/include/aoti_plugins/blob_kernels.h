#pragma once

/// The marks around the kernels that a blob calls, by which a profile knows when each ran.
///
/// The lowering writes them into the wrapper (`aoti_plugins/lowering/inductor/kernel_sites.py` must
/// match). While nobody watches, a mark is a load of one number that stays in the cache.

#include <stdint.h>

#ifdef __cplusplus
#include <initializer_list>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// How many calls are being watched in this process.
extern __attribute__((visibility("default"))) int32_t aotip_kernel_watches;

/// A kernel begins or ends on this thread. `name` is what the program calls it, with the number of
/// the place that calls it ("cpp_fused_relu_0:3"), and lives as long as the blob. Ignored where
/// this thread's call is not the one that is watched.
__attribute__((visibility("default"))) void aotip_kernel_begin(const char* name);
__attribute__((visibility("default"))) void aotip_kernel_end(void);

/// The kernel that has just ended wrote a tensor, which the watch may want to see. `name` is what
/// the program calls it ("cpp_fused_relu_0:3.buf7"); `tensor` is an `AtenTensorHandle` and stays
/// the caller's. It is shown with `sizes`, of as many elements; with its own where `ndim` is -1.
__attribute__((visibility("default"))) void aotip_kernel_output(const char* name, void* tensor,
                                                                int64_t ndim, const int64_t* sizes);

#ifdef __cplusplus
}  // extern "C"
#endif

#define AOTIP_KERNEL_IS_WATCHED \
  __builtin_expect(__atomic_load_n(&aotip_kernel_watches, __ATOMIC_RELAXED) != 0, 0)

/// Before the statement that calls a kernel, and behind it, with what it wrote.
#define AOTIP_KERNEL_BEGIN(name) \
  if (AOTIP_KERNEL_IS_WATCHED) aotip_kernel_begin(name)
#define AOTIP_KERNEL_END(...)    \
  if (AOTIP_KERNEL_IS_WATCHED) { \
    aotip_kernel_end();          \
    __VA_ARGS__                  \
  }

/// In `AOTIP_KERNEL_END()`: a tensor that the kernel wrote. The sizes stand in braces.
#define AOTIP_KERNEL_OUTPUT(name, handle, ndim, ...)                                             \
  {                                                                                              \
    const std::initializer_list<int64_t> aotip_sizes __VA_ARGS__;                                \
    aotip_kernel_output(name, static_cast<AtenTensorHandle>(handle), ndim, aotip_sizes.begin()); \
  }
