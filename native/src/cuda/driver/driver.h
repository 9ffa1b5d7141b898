#pragma once

#include <cuda.h>

#include "slim/status.h"

namespace aoti_plugins::cuda {

// Every driver function that we call, each once. Those of the second list came with CUDA 11.8 or
// later: null with an older driver.
#define AOTIP_DRIVER_FUNCTIONS(X)                \
  X(cuInit)                                      \
  X(cuDriverGetVersion)                          \
  X(cuGetErrorName)                              \
  X(cuGetErrorString)                            \
  X(cuDeviceGet)                                 \
  X(cuDeviceGetCount)                            \
  X(cuDeviceGetName)                             \
  X(cuDeviceGetAttribute)                        \
  X(cuDevicePrimaryCtxRetain)                    \
  X(cuDevicePrimaryCtxRelease)                   \
  X(cuCtxGetCurrent)                             \
  X(cuCtxSetCurrent)                             \
  X(cuCtxGetDevice)                              \
  X(cuCtxSynchronize)                            \
  X(cuMemGetInfo)                                \
  X(cuMemAlloc)                                  \
  X(cuMemFree)                                   \
  X(cuMemHostAlloc)                              \
  X(cuMemFreeHost)                               \
  X(cuMemcpy)                                    \
  X(cuMemcpyAsync)                               \
  X(cuMemcpyHtoDAsync)                           \
  X(cuMemcpyDtoHAsync)                           \
  X(cuMemcpyDtoDAsync)                           \
  X(cuMemsetD8Async)                             \
  X(cuMemsetD16Async)                            \
  X(cuMemsetD32Async)                            \
  X(cuMemPoolCreate)                             \
  X(cuMemPoolDestroy)                            \
  X(cuMemPoolSetAttribute)                       \
  X(cuMemPoolGetAttribute)                       \
  X(cuMemPoolTrimTo)                             \
  X(cuMemAllocFromPoolAsync)                     \
  X(cuIpcGetMemHandle)                           \
  X(cuIpcOpenMemHandle)                          \
  X(cuIpcCloseMemHandle)                         \
  X(cuMemFreeAsync)                              \
  X(cuPointerGetAttribute)                       \
  X(cuStreamCreate)                              \
  X(cuStreamDestroy)                             \
  X(cuStreamSynchronize)                         \
  X(cuStreamQuery)                               \
  X(cuStreamWaitEvent)                           \
  X(cuStreamIsCapturing)                         \
  X(cuStreamBeginCapture)                        \
  X(cuStreamEndCapture)                          \
  X(cuThreadExchangeStreamCaptureMode)           \
  X(cuGraphInstantiateWithFlags)                 \
  X(cuGraphLaunch)                               \
  X(cuGraphExecDestroy)                          \
  X(cuGraphDestroy)                              \
  X(cuEventCreate)                               \
  X(cuEventDestroy)                              \
  X(cuEventRecord)                               \
  X(cuEventQuery)                                \
  X(cuEventSynchronize)                          \
  X(cuModuleLoad)                                \
  X(cuModuleLoadData)                            \
  X(cuModuleLoadDataEx)                          \
  X(cuModuleUnload)                              \
  X(cuModuleGetFunction)                         \
  X(cuModuleGetGlobal)                           \
  X(cuFuncSetAttribute)                          \
  X(cuFuncGetAttribute)                          \
  X(cuFuncSetCacheConfig)                        \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuLaunchKernel)                              \
  X(cuLaunchCooperativeKernel)

#define AOTIP_DRIVER_OPTIONAL_FUNCTIONS(X) \
  X(cuEventElapsedTime)                    \
  X(cuLaunchHostFunc)                      \
  X(cuLaunchKernelEx)                      \
  X(cuTensorMapEncodeTiled)

/// The functions of the installed driver, by their names.
struct Driver {
#define AOTIP_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  AOTIP_DRIVER_FUNCTIONS(AOTIP_DRIVER_MEMBER)
  AOTIP_DRIVER_OPTIONAL_FUNCTIONS(AOTIP_DRIVER_MEMBER)
#undef AOTIP_DRIVER_MEMBER
};

inline CUdeviceptr device_address(const void* ptr) {
  return reinterpret_cast<CUdeviceptr>(ptr);
}

/// Name of the environment variable with the path of a driver library to open instead of
/// libcuda.so.1; for tests.
inline constexpr const char* kDriverVariable = "AOTI_PLUGINS_CUDA_DRIVER";

/// The driver, opened and initialized by the first call that succeeds; null when this machine has
/// none. Never closed. Thread-safe.
const Driver* find_driver() noexcept;

/// As `find_driver()`; a null one comes with a reason that says what to do.
const Driver* open_driver() noexcept;

/// The driver on paths that only run once it is open.
const Driver& driver() noexcept;

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"; works without a driver too.
const char* error_text(CUresult code) noexcept;

/// Records `<what> failed: <error>` as the reason; lack of memory counts as a shortage too.
Status fail_driver(const char* what, CUresult code) noexcept __attribute__((cold, noinline));

/// Logs `<what> failed: <error>` unless the code is a success or says that the process is ending.
void log_driver(const char* what, CUresult code) noexcept;

}  // namespace aoti_plugins::cuda

/// Calls a driver function by its name; leaves the current function with a reason when it fails.
#define AOTIP_CU(function, ...)                                                          \
  do {                                                                                   \
    const CUresult aotip_cu_code = ::aoti_plugins::cuda::driver().function(__VA_ARGS__); \
    if (__builtin_expect(aotip_cu_code != CUDA_SUCCESS, 0)) {                            \
      return ::aoti_plugins::cuda::fail_driver(#function, aotip_cu_code);                \
    }                                                                                    \
  } while (0)

/// For destructors: calls a driver function, logs a failure and goes on.
#define AOTIP_CU_LOG(function, ...) \
  ::aoti_plugins::cuda::log_driver(#function, ::aoti_plugins::cuda::driver().function(__VA_ARGS__))
