// The C shims with which generated code runs its kernels.

#include <aoti_plugins/mps_shim.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mps/driver/encode.h"
#include "mps/driver/shader_library.h"
#include "mps/driver/stream.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

/// A kernel by its name. Programs keep it for as long as their code is loaded, and several of them,
/// on several threads, may have the same one: nothing here belongs to one run.
struct AOTIMetalKernelFunctionOpaque {
  AOTIMetalKernelFunctionOpaque(mps::ShaderLibrary& shader, std::string kernel_name)
      : library(shader), name(std::move(kernel_name)) {}

  /// Null, with a reason, when the kernel does not build.
  const mps::Kernel* find() noexcept {
    const mps::Kernel* known = kernel.load(std::memory_order_acquire);
    if (known == nullptr) {
      known = library.kernel(name.c_str());
      kernel.store(known, std::memory_order_release);
    }
    return known;
  }

  mps::ShaderLibrary& library;
  const std::string name;
  std::atomic<const mps::Kernel*> kernel{nullptr};
};

struct AOTIMetalShaderLibraryOpaque {
  std::shared_ptr<mps::ShaderLibrary> library;
  std::mutex mutex;
  std::vector<std::unique_ptr<AOTIMetalKernelFunctionOpaque>> functions;
};

namespace {

/// Runs the body of a shim whose code nobody looks at.
template <typename Body>
AOTITorchError run_noted_shim(const char* shim, const Body& body) noexcept {
  const AOTITorchError code = run_shim(shim, body);
  if (code != kShimSuccess && mps::current_stream() != nullptr) {
    mps::current_stream()->note_fault();
  }
  return code;
}

/// As `run_noted_shim()`; does nothing after the first failure of a run.
template <typename Body>
AOTITorchError run_kernel_shim(const char* shim, const Body& body) noexcept {
  const mps::Stream* stream = mps::current_stream();
  const bool runs = stream == nullptr || stream->check_fault() == Status::kOk;
  return runs ? run_noted_shim(shim, body) : kShimFailure;
}

Status dispatch(AOTIMetalKernelFunctionHandle func, const uint64_t* length, size_t length_size,
                const uint64_t* group_size, size_t group_size_size) {
  AOTIP_CHECK_ARG(func);
  AOTIP_CHECK_ARG(length);
  AOTIP_CHECK(length_size >= 1 && length_size <= 3 && group_size_size <= 3,
              "a grid of %zu dims in groups of %zu dims, expected 1 to 3", length_size,
              group_size_size);
  const mps::Kernel* kernel = func->find();
  AOTIP_RETURN_IF_NULL(kernel);
  const auto size_of = [](const uint64_t* dims, size_t count) {
    return mps::Size{dims[0], count > 1 ? dims[1] : 1, count > 2 ? dims[2] : 1};
  };
  const mps::Size grid = size_of(length, length_size);
  const mps::Size group = group_size != nullptr && group_size_size > 0
                              ? size_of(group_size, group_size_size)
                              : mps::Size{std::min(grid.x, kernel->max_threads()), 1, 1};
  return mps::dispatch_threads(*kernel, grid, group);
}

}  // namespace

AOTITorchError aoti_torch_mps_create_shader_library(const char* metal_shader_source,
                                                    AOTIMetalShaderLibraryHandle* library_handle) {
  // Programs ask once and keep what they get, so this must not fail for what happened before.
  return run_noted_shim(__func__, [&] {
    AOTIP_CHECK_ARG(metal_shader_source);
    AOTIP_CHECK_ARG(library_handle);
    auto library = std::make_unique<AOTIMetalShaderLibraryOpaque>();
    library->library = mps::ShaderLibrary::get(metal_shader_source);
    *library_handle = library.release();
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_mps_delete_shader_library(AOTIMetalShaderLibraryHandle library_handle) {
  delete library_handle;
  return kShimSuccess;
}

AOTITorchError aoti_torch_mps_get_kernel_function(AOTIMetalShaderLibraryHandle library_handle,
                                                  const char* kernel_name,
                                                  AOTIMetalKernelFunctionHandle* function_handle) {
  return run_noted_shim(__func__, [&] {
    AOTIP_CHECK_ARG(library_handle);
    AOTIP_CHECK_ARG(kernel_name);
    AOTIP_CHECK_ARG(function_handle);
    auto function =
        std::make_unique<AOTIMetalKernelFunctionOpaque>(*library_handle->library, kernel_name);
    const std::lock_guard<std::mutex> lock(library_handle->mutex);
    library_handle->functions.push_back(std::move(function));
    *function_handle = library_handle->functions.back().get();
    return (*function_handle)->find() != nullptr ? Status::kOk : Status::kFailed;
  });
}

AOTITorchError aoti_torch_mps_start_encoding(AOTIMetalKernelFunctionHandle func) {
  return run_kernel_shim(__func__, [&] {
    AOTIP_CHECK_ARG(func);
    const mps::Kernel* kernel = func->find();
    return kernel != nullptr ? mps::begin_kernel(*kernel) : Status::kFailed;
  });
}

AOTITorchError aoti_torch_mps_set_arg_tensor(AOTIMetalKernelFunctionHandle func, unsigned idx,
                                             AtenTensorHandle tensor) {
  return run_kernel_shim(__func__, [&] {
    AOTIP_CHECK_ARG(func);
    AOTIP_CHECK_TENSORS(tensor);
    return mps::bind_tensor(idx, *unwrap(tensor));
  });
}

AOTITorchError aoti_torch_mps_set_arg_int(AOTIMetalKernelFunctionHandle func, unsigned idx,
                                          int64_t val) {
  return run_kernel_shim(__func__, [&] {
    AOTIP_CHECK_ARG(func);
    return mps::bind_bytes(idx, &val, sizeof(val));
  });
}

AOTITorchError aoti_torch_mps_dispatch_single(AOTIMetalKernelFunctionHandle func, uint64_t length) {
  return run_kernel_shim(__func__, [&] { return dispatch(func, &length, 1, nullptr, 0); });
}

AOTITorchError aoti_torch_mps_dispatch_single_with_group_size(AOTIMetalKernelFunctionHandle func,
                                                              uint64_t length,
                                                              uint64_t group_size) {
  return run_kernel_shim(__func__, [&] { return dispatch(func, &length, 1, &group_size, 1); });
}

AOTITorchError aoti_torch_mps_dispatch_array(AOTIMetalKernelFunctionHandle func,
                                             const uint64_t* length, size_t length_size) {
  return run_kernel_shim(__func__, [&] { return dispatch(func, length, length_size, nullptr, 0); });
}

AOTITorchError aoti_torch_mps_dispatch_array_with_group_size(AOTIMetalKernelFunctionHandle func,
                                                             const uint64_t* length,
                                                             size_t length_size,
                                                             const uint64_t* group_size,
                                                             size_t group_size_size) {
  return run_kernel_shim(
      __func__, [&] { return dispatch(func, length, length_size, group_size, group_size_size); });
}

AOTITorchError aoti_torch_mps_run_command_block(AOTIMetalKernelFunctionHandle func,
                                                aoti_torch_mps_command_block_callback_t callback,
                                                void* user_data) {
  return run_kernel_shim(__func__, [&] {
    AOTIP_CHECK_ARG(func);
    AOTIP_CHECK_ARG(callback);
    mps::Stream* stream = nullptr;
    AOTIP_RETURN_IF_FAILED(mps::require_stream(&stream));
    callback(func, user_data);
    return stream->check_fault();
  });
}
