#pragma once

/// The C shims that the CUDA delegate's library provides beside those of shim.h, with PyTorch's
/// names and signatures. shim.h has the conventions. They work on this thread's current stream,
/// which is the delegate's while its model runs, and do not wait for it unless they say so.
///
/// Not all of them have run on a GPU yet: docs/cuda-runtime.md says which.

#include <aoti_plugins/shim.h>

extern "C" {

struct CUDAGuardOpaque;
using CUDAGuardHandle = CUDAGuardOpaque*;
struct CUDAStreamGuardOpaque;
using CUDAStreamGuardHandle = CUDAStreamGuardOpaque*;

/// Makes a GPU this thread's current one until the guard is deleted.
AOTIP_EXPORT AOTITorchError aoti_torch_create_cuda_guard(int32_t device_index,
                                                         CUDAGuardHandle* ret_guard);
AOTIP_EXPORT AOTITorchError aoti_torch_delete_cuda_guard(CUDAGuardHandle guard);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_guard_set_index(CUDAGuardHandle guard,
                                                            int32_t device_index);
/// Makes a stream (and its GPU) this thread's current one until the guard is deleted.
AOTIP_EXPORT AOTITorchError aoti_torch_create_cuda_stream_guard(void* stream, int32_t device_index,
                                                                CUDAStreamGuardHandle* ret_guard);
AOTIP_EXPORT AOTITorchError aoti_torch_delete_cuda_stream_guard(CUDAStreamGuardHandle guard);
/// Borrowed; null is the default stream.
AOTIP_EXPORT AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index,
                                                               void** ret_stream);
/// Index of this thread's current GPU.
AOTIP_EXPORT AOTITorchError aoti_torch_get_current_device_index(int32_t* ret_device_index);

/// Memory on the current GPU, outside of any pool.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t nbytes,
                                                                        void** ret_ptr);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_caching_allocator_raw_delete(void* ptr);

// The operators, with comments in the list.
#define AOTIP_OPERATOR(shim, op, parameters) \
  AOTIP_EXPORT AOTITorchError aoti_torch_cuda_##shim parameters;
#define AOTIP_CUDA_OPERATOR AOTIP_OPERATOR
#include <aoti_plugins/operators.inc>

/// The names of all shims of this library, as `aotip_shim_names()`.
AOTIP_EXPORT const char* const* aotip_cuda_shim_names(size_t* ret_count);

}  // extern "C"
