// The C shims that say which GPU and which stream a thread works on.

#include <aoti_plugins/cuda_shim.h>

#include <algorithm>
#include <new>

#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "cuda/memory/device_memory.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

struct CUDAGuardOpaque {
  cuda::ContextGuard context;
};

struct CUDAStreamGuardOpaque {
  explicit CUDAStreamGuardOpaque(const cuda::CurrentStream& stream) : scope(stream) {}

  cuda::ContextGuard context;
  cuda::StreamScope scope;
};

namespace {

/// The stream with a handle: the current one, or one of somebody else.
cuda::CurrentStream stream_of(void* handle) {
  const cuda::CurrentStream& current = cuda::current_stream();
  return handle == current.handle ? current
                                  : cuda::CurrentStream{static_cast<CUstream>(handle), nullptr};
}

}  // namespace

AOTITorchError aoti_torch_create_cuda_guard(int32_t device_index, CUDAGuardHandle* ret_guard) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret_guard);
    auto guard = std::make_unique<CUDAGuardOpaque>();
    AOTIP_RETURN_IF_FAILED(cuda::use_gpu(device_index));
    *ret_guard = guard.release();
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_delete_cuda_guard(CUDAGuardHandle guard) {
  delete guard;
  return kShimSuccess;
}

AOTITorchError aoti_torch_cuda_guard_set_index(CUDAGuardHandle guard, int32_t device_index) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(guard);
    return cuda::use_gpu(device_index);
  });
}

AOTITorchError aoti_torch_create_cuda_stream_guard(void* stream, int32_t device_index,
                                                   CUDAStreamGuardHandle* ret_guard) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret_guard);
    auto guard = std::make_unique<CUDAStreamGuardOpaque>(stream_of(stream));
    AOTIP_RETURN_IF_FAILED(cuda::use_gpu(device_index));
    *ret_guard = guard.release();
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_delete_cuda_stream_guard(CUDAStreamGuardHandle guard) {
  delete guard;
  return kShimSuccess;
}

AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** ret_stream) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret_stream);
    const cuda::CurrentStream& current = cuda::current_stream();
    // A stream belongs to one GPU; the others have their default streams.
    const bool other = current.owner != nullptr && current.owner->gpu() != device_index;
    *ret_stream = other ? nullptr : current.handle;
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_get_current_device_index(int32_t* ret_device_index) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret_device_index);
    const int32_t index = cuda::current_gpu();
    *ret_device_index = index < 0 ? 0 : index;
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t nbytes, void** ret_ptr) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret_ptr);
    const int32_t gpu = std::max(cuda::current_gpu(), 0);
    AOTIP_RETURN_IF_FAILED(cuda::use_gpu(gpu));
    CUdeviceptr ptr = 0;
    if (nbytes > 0) {
      const CUresult code = cuda::allocate_device_memory(gpu, nbytes, &ptr);
      AOTIP_CHECK(code == CUDA_SUCCESS, "cuMemAlloc failed: %s", cuda::error_text(code));
    }
    *ret_ptr = reinterpret_cast<void*>(ptr);
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_cuda_caching_allocator_raw_delete(void* ptr) {
  return run_shim(__func__, [&] {
    if (ptr != nullptr) {
      AOTIP_CHECK(cuda::find_driver() != nullptr, "no driver is open");
      AOTIP_CU(cuMemFree, reinterpret_cast<CUdeviceptr>(ptr));
    }
    return Status::kOk;
  });
}
