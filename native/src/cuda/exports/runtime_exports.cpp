// The cudart functions that generated code calls, as `aotip_` + name, over the driver. As cudart's
// they work on this thread's current GPU, which is cuda:0 where none was chosen.

#include <aoti_plugins/cuda_blob_prelude.h>

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include <algorithm>

#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "cuda/memory/device_memory.h"

using namespace aoti_plugins;
using aoti_plugins::cuda::device_address;
using aoti_plugins::cuda::driver;

namespace {

thread_local cudaError_t last_error = cudaSuccess;

/// The two sets of codes agree where both have a name for something.
cudaError_t noted(const char* name, CUresult code) {
  if (__builtin_expect(code == CUDA_SUCCESS, 1)) {
    return cudaSuccess;
  }
  const cudaError_t error = static_cast<cudaError_t>(code);
  if (code != CUDA_ERROR_NOT_READY) {
    (void)cuda::fail_driver(name, code);
    last_error = error;
  }
  return error;
}

/// Opens the driver and makes sure that a GPU is current.
cudaError_t ready() {
  if (cuda::open_driver() == nullptr) {
    return last_error = cudaErrorNoDevice;
  }
  CUcontext context = nullptr;
  if (driver().cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr) {
    return cudaSuccess;
  }
  return cuda::use_gpu(0) == Status::kOk ? cudaSuccess : last_error = cudaErrorNoDevice;
}

}  // namespace

/// Runs a driver function of this name once the driver is open.
#define AOTIP_READY(name, function, ...)               \
  const cudaError_t not_ready = ready();               \
  if (__builtin_expect(not_ready != cudaSuccess, 0)) { \
    return not_ready;                                  \
  }                                                    \
  return noted(#name, driver().function(__VA_ARGS__))

extern "C" {

cudaError_t CUDARTAPI cudaGetDevice(int* index) {
  if (const cudaError_t error = ready()) {
    return error;
  }
  const int32_t current = cuda::current_gpu();
  *index = current < 0 ? 0 : current;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int index) {
  return cuda::use_gpu(index) == Status::kOk ? cudaSuccess : last_error = cudaErrorInvalidDevice;
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(cuda::gpus().size());
  return *count > 0 ? cudaSuccess : last_error = cudaErrorNoDevice;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int index) {
  const cuda::Gpu* gpu = cuda::find_gpu(index);
  if (gpu == nullptr) {
    return last_error = cudaErrorInvalidDevice;
  }
  AOTIP_READY(cudaDeviceGetAttribute, cuDeviceGetAttribute, value,
              static_cast<CUdevice_attribute>(which), gpu->handle);
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void) {
  AOTIP_READY(cudaDeviceSynchronize, cuCtxSynchronize, );
}

cudaError_t CUDARTAPI cudaMalloc(void** ptr, size_t nbytes) {
  if (nbytes == 0) {
    *ptr = nullptr;
    return cudaSuccess;
  }
  if (const cudaError_t error = ready()) {
    return error;
  }
  const int32_t gpu = std::max(cuda::current_gpu(), 0);
  return noted("cudaMalloc",
               cuda::allocate_device_memory(gpu, nbytes, reinterpret_cast<CUdeviceptr*>(ptr)));
}

cudaError_t CUDARTAPI cudaFree(void* ptr) {
  if (ptr == nullptr) {
    return cudaSuccess;
  }
  AOTIP_READY(cudaFree, cuMemFree, device_address(ptr));
}

// From the GPU's own default pool, as with cudart, is not worth a table entry: plain memory is
// right too, and generated code does not call these on the paths that count.
cudaError_t CUDARTAPI cudaMallocAsync(void** ptr, size_t nbytes, cudaStream_t) {
  return cudaMalloc(ptr, nbytes);
}

cudaError_t CUDARTAPI cudaFreeAsync(void* ptr, cudaStream_t stream) {
  if (ptr == nullptr) {
    return cudaSuccess;
  }
  const cudaError_t error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? cudaFree(ptr) : error;
}

cudaError_t CUDARTAPI cudaMallocHost(void** ptr, size_t nbytes) {
  AOTIP_READY(cudaMallocHost, cuMemHostAlloc, ptr, nbytes, CU_MEMHOSTALLOC_PORTABLE);
}

// cudart's flags are the driver's.
cudaError_t CUDARTAPI cudaHostAlloc(void** ptr, size_t nbytes, unsigned int flags) {
  AOTIP_READY(cudaHostAlloc, cuMemHostAlloc, ptr, nbytes, flags);
}

cudaError_t CUDARTAPI cudaFreeHost(void* ptr) {
  if (ptr == nullptr) {
    return cudaSuccess;
  }
  AOTIP_READY(cudaFreeHost, cuMemFreeHost, ptr);
}

// The addresses say which way a copy goes, whatever its kind says.
cudaError_t CUDARTAPI cudaMemcpy(void* dst, const void* src, size_t nbytes, cudaMemcpyKind) {
  AOTIP_READY(cudaMemcpy, cuMemcpy, device_address(dst), device_address(src), nbytes);
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void* dst, const void* src, size_t nbytes, cudaMemcpyKind,
                                      cudaStream_t stream) {
  AOTIP_READY(cudaMemcpyAsync, cuMemcpyAsync, device_address(dst), device_address(src), nbytes,
              stream);
}

// Memory that the driver does not know is any host memory: no error, as with cudart. Only fields
// that the structure has with every version are written.
cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  if (const cudaError_t error = ready()) {
    return error;
  }
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  attributes->devicePointer = nullptr;
  attributes->hostPointer = const_cast<void*>(ptr);
  unsigned int type = 0;
  if (driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     device_address(ptr)) != CUDA_SUCCESS) {
    return cudaSuccess;
  }
  unsigned int managed = 0;
  if (driver().cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                     device_address(ptr)) != CUDA_SUCCESS) {
    managed = 0;
  }
  const bool on_host = type == CU_MEMORYTYPE_HOST;
  attributes->type = managed != 0 ? cudaMemoryTypeManaged
                     : on_host    ? cudaMemoryTypeHost
                                  : cudaMemoryTypeDevice;
  attributes->devicePointer = const_cast<void*>(ptr);
  attributes->hostPointer = managed != 0 || on_host ? const_cast<void*>(ptr) : nullptr;
  return noted("cudaPointerGetAttributes",
               driver().cuPointerGetAttribute(
                   &attributes->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device_address(ptr)));
}

cudaError_t CUDARTAPI cudaMemsetAsync(void* ptr, int value, size_t nbytes, cudaStream_t stream) {
  AOTIP_READY(cudaMemsetAsync, cuMemsetD8Async, device_address(ptr),
              static_cast<unsigned char>(value), nbytes, stream);
}

cudaError_t CUDARTAPI cudaMemset(void* ptr, int value, size_t nbytes) {
  const cudaError_t error = cudaMemsetAsync(ptr, value, nbytes, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* stream) {
  AOTIP_READY(cudaStreamCreate, cuStreamCreate, stream, CU_STREAM_DEFAULT);
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  AOTIP_READY(cudaStreamCreateWithFlags, cuStreamCreate, stream, flags);
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  AOTIP_READY(cudaStreamDestroy, cuStreamDestroy, stream);
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  AOTIP_READY(cudaStreamSynchronize, cuStreamSynchronize, stream);
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  AOTIP_READY(cudaStreamQuery, cuStreamQuery, stream);
}

// The two enumerations have the same values.
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
  const auto ask = [&]() -> cudaError_t {
    AOTIP_READY(cudaStreamIsCapturing, cuStreamIsCapturing, stream, &found);
  };
  const cudaError_t error = ask();
  if (error == cudaSuccess) {
    *status = static_cast<cudaStreamCaptureStatus>(found);
  }
  return error;
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                          unsigned int flags) {
  AOTIP_READY(cudaStreamWaitEvent, cuStreamWaitEvent, stream, event, flags);
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  AOTIP_READY(cudaEventCreateWithFlags, cuEventCreate, event, flags);
}

// Without timing: the models only wait for their events, and timing costs.
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  AOTIP_READY(cudaEventCreate, cuEventCreate, event, CU_EVENT_DISABLE_TIMING);
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  AOTIP_READY(cudaEventDestroy, cuEventDestroy, event);
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  AOTIP_READY(cudaEventRecord, cuEventRecord, event, stream);
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  AOTIP_READY(cudaEventQuery, cuEventQuery, event);
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  AOTIP_READY(cudaEventSynchronize, cuEventSynchronize, event);
}

// Generated code asks for the text of every code, successes included.
const char* CUDARTAPI cudaGetErrorString(cudaError_t code) {
  if (__builtin_expect(code == cudaSuccess, 1)) {
    return "no error";
  }
  const char* reason = last_failure();
  return reason[0] != '\0' ? reason : cuda::error_text(static_cast<CUresult>(code));
}

const char* CUDARTAPI cudaGetErrorName(cudaError_t code) {
  return cuda::error_text(static_cast<CUresult>(code));
}

cudaError_t CUDARTAPI cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
  return last_error;
}

}  // extern "C"
