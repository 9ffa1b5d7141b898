#pragma once

/// The C shims that the MPS delegate's library provides beside those of shim.h, with PyTorch's
/// names and signatures. shim.h has the conventions.
///
/// They give work to the GPU for the program that this thread runs, and do not wait for it.
/// Generated code does not look at what those that encode kernels return: the first failure makes
/// all later ones of the same run do nothing, and the run fails with its reason.

#include <aoti_plugins/shim.h>

extern "C" {

struct AOTIMetalKernelFunctionOpaque;
using AOTIMetalKernelFunctionHandle = AOTIMetalKernelFunctionOpaque*;
struct AOTIMetalShaderLibraryOpaque;
using AOTIMetalShaderLibraryHandle = AOTIMetalShaderLibraryOpaque*;

/// A shader by its text, which is copied. It is compiled when a kernel of it is asked for.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_create_shader_library(
    const char* metal_shader_source, AOTIMetalShaderLibraryHandle* library_handle);
/// Null is allowed.
AOTIP_EXPORT AOTITorchError
aoti_torch_mps_delete_shader_library(AOTIMetalShaderLibraryHandle library_handle);
/// Borrowed from the library. It is there also when the kernel does not build, and fails whenever
/// it is used.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_get_kernel_function(
    AOTIMetalShaderLibraryHandle library_handle, const char* kernel_name,
    AOTIMetalKernelFunctionHandle* function_handle);

/// Begins one dispatch of a kernel. Its arguments follow, then its grid.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_start_encoding(AOTIMetalKernelFunctionHandle func);
/// A tensor on mps, or one of at most 4096 bytes on the cpu, which is copied.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_set_arg_tensor(AOTIMetalKernelFunctionHandle func,
                                                          unsigned idx, AtenTensorHandle tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_set_arg_int(AOTIMetalKernelFunctionHandle func,
                                                       unsigned idx, int64_t val);
/// Grids of one thread per element, in 1 to 3 dims; one without elements does nothing. Without a
/// group size the kernel runs in groups as large as it may have along the first dim; a group size
/// that it may not have is a failure.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_dispatch_single(AOTIMetalKernelFunctionHandle func,
                                                           uint64_t length);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_dispatch_single_with_group_size(
    AOTIMetalKernelFunctionHandle func, uint64_t length, uint64_t group_size);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_dispatch_array(AOTIMetalKernelFunctionHandle func,
                                                          const uint64_t* length,
                                                          size_t length_size);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_dispatch_array_with_group_size(
    AOTIMetalKernelFunctionHandle func, const uint64_t* length, size_t length_size,
    const uint64_t* group_size, size_t group_size_size);

typedef void (*aoti_torch_mps_command_block_callback_t)(AOTIMetalKernelFunctionHandle func,
                                                        void* user_data);
/// Calls `callback(func, user_data)`, which encodes one dispatch.
AOTIP_EXPORT AOTITorchError
aoti_torch_mps_run_command_block(AOTIMetalKernelFunctionHandle func,
                                 aoti_torch_mps_command_block_callback_t callback, void* user_data);

/// Memory that the CPU and the GPU share. Neither of the two copies below nor freeing waits for
/// kernels of other programs.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_malloc(void** buffer, size_t num_bytes);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_free(void* ptr);
/// Copies bytes from `constants_start + bytes_read` to `buffer + constant_offset`.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_memcpy(void* buffer, size_t constant_offset,
                                                  size_t bytes_read, size_t data_size,
                                                  uint8_t* constants_start);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_copy_buffer(void* src_buffer, void* dst_buffer,
                                                       size_t data_size, size_t src_offset,
                                                       size_t dst_offset);

/// The names of the shims that this library provides, sorted; borrowed for the life of the process.
AOTIP_EXPORT const char* const* aotip_mps_shim_names(size_t* ret_count);

}  // extern "C"
