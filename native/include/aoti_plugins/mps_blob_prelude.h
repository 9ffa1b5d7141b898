#pragma once

/// Force-included into every file of a blob for Apple GPUs, in place of blob_prelude.h.
///
/// Gives the C shims linker names of our own and the marks by which a profile knows its kernels
/// (`blob_kernels.h`), and answers the one function of PyTorch's that takes
/// a C++ object: a blob calls it with a `std::function` of its own, and no C++ type may cross into
/// the runtime. Such a blob has no loops for threads and needs none of the runtime's for the host.

#include <aoti_plugins/blob_kernels.h>
#include <aoti_plugins/shim_link_names.h>

#ifdef __cplusplus
#include <torch/csrc/inductor/aoti_torch/c/shim_mps.h>

#include <functional>

namespace aotip {

inline void call_command_block(AOTIMetalKernelFunctionHandle function, void* block) {
  (*static_cast<std::function<void(AOTIMetalKernelFunctionHandle)>*>(block))(function);
}

}  // namespace aotip

#define aoti_torch_mps_shared_callback aotip::call_command_block
#endif
