// The driver functions that generated code calls, as `aotip_` + name: the real driver's, opened on
// first use, and kernel containers where an image is expected.

#include <aoti_plugins/cuda_blob_prelude.h>

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <cstdint>
#include <cstdio>

#include "cuda/driver/driver.h"
#include "cuda/driver/early_launch.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/kernel_container.h"
#include "cuda/driver/module_log.h"

using namespace aoti_plugins;
using aoti_plugins::cuda::driver;
using aoti_plugins::cuda::open_driver;

namespace {

constexpr size_t kLogNbytes = 2048;

/// Records why a call failed, for the model's error; returns the code.
CUresult noted(const char* name, CUresult code) {
  if (__builtin_expect(code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY, 0)) {
    (void)cuda::fail_driver(name, code);
  }
  return code;
}

/// Loads PTX; what the driver's compiler says becomes part of the reason.
CUresult load_ptx(CUmodule* module, const cuda::KernelImage& image) {
  char log[kLogNbytes] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  const CUresult code = driver().cuModuleLoadDataEx(module, image.data, 2, options, values);
  if (code != CUDA_SUCCESS) {
    (void)fail("compiling the kernel's PTX for compute_%u failed: %s: %s", image.arch,
               cuda::error_text(code), log);
  }
  return code;
}

CUresult load_container(CUmodule* module, const void* container) {
  const int32_t index = cuda::current_gpu();
  const cuda::Gpu* gpu = cuda::find_gpu(index < 0 ? 0 : index);
  cuda::KernelImage image;
  if (gpu == nullptr ||
      cuda::choose_kernel_image(container, SIZE_MAX / 2, gpu->arch(), &image) != Status::kOk) {
    return gpu == nullptr ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (image.kind == cuda::KernelImage::kPtx) {
    return load_ptx(module, image);
  }
  return noted("loading a kernel", driver().cuModuleLoadData(module, image.data));
}

/// Remembers a module for the model that loads it; returns the code.
CUresult logged(CUmodule* module, CUresult code) {
  if (code == CUDA_SUCCESS && cuda::ModuleLog::current() != nullptr) {
    cuda::ModuleLog::current()->add(*module);
  }
  return code;
}

}  // namespace

/// Defines a function that passes its arguments on to the driver.
#define AOTIP_FORWARD(name, parameters, arguments)       \
  CUresult CUDAAPI name parameters {                     \
    if (__builtin_expect(open_driver() == nullptr, 0)) { \
      return CUDA_ERROR_NO_DEVICE;                       \
    }                                                    \
    return noted(#name, driver().name arguments);        \
  }

extern "C" {

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  if (open_driver() == nullptr) {
    return CUDA_ERROR_NO_DEVICE;
  }
  if (module == nullptr || image == nullptr) {
    return noted("cuModuleLoadData", CUDA_ERROR_INVALID_VALUE);
  }
  if (cuda::is_kernel_container(image)) {
    return logged(module, load_container(module, image));
  }
  return logged(module, noted("cuModuleLoadData", driver().cuModuleLoadData(module, image)));
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                                    CUjit_option* options, void** values) {
  if (open_driver() == nullptr) {
    return CUDA_ERROR_NO_DEVICE;
  }
  if (cuda::is_kernel_container(image)) {
    return cuModuleLoadData(module, image);
  }
  return logged(module, noted("cuModuleLoadDataEx",
                              driver().cuModuleLoadDataEx(module, image, count, options, values)));
}

CUresult CUDAAPI cuModuleLoad(CUmodule* module, const char* path) {
  if (open_driver() == nullptr) {
    return CUDA_ERROR_NO_DEVICE;
  }
  return logged(module, noted("cuModuleLoad", driver().cuModuleLoad(module, path)));
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  if (open_driver() == nullptr) {
    return CUDA_ERROR_NO_DEVICE;
  }
  if (cuda::ModuleLog::current() != nullptr) {
    cuda::ModuleLog::current()->remove(module);
  }
  return noted("cuModuleUnload", driver().cuModuleUnload(module));
}

// Generated code asks for the text of every code, successes included.
CUresult CUDAAPI cuGetErrorString(CUresult code, const char** text) {
  if (__builtin_expect(code == CUDA_SUCCESS, 1)) {
    *text = "no error";
    return CUDA_SUCCESS;
  }
  *text = last_failure();
  if ((*text)[0] != '\0') {
    return CUDA_SUCCESS;
  }
  return open_driver() != nullptr ? driver().cuGetErrorString(code, text) : CUDA_SUCCESS;
}

AOTIP_FORWARD(cuGetErrorName, (CUresult code, const char** text), (code, text))
AOTIP_FORWARD(cuInit, (unsigned int flags), (flags))
AOTIP_FORWARD(cuDriverGetVersion, (int* version), (version))
AOTIP_FORWARD(cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal))
AOTIP_FORWARD(cuDeviceGetCount, (int* count), (count))
AOTIP_FORWARD(cuDeviceGetAttribute, (int* value, CUdevice_attribute which, CUdevice device),
              (value, which, device))
AOTIP_FORWARD(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device))
AOTIP_FORWARD(cuDevicePrimaryCtxRelease, (CUdevice device), (device))
AOTIP_FORWARD(cuCtxGetCurrent, (CUcontext * context), (context))
AOTIP_FORWARD(cuCtxSetCurrent, (CUcontext context), (context))
AOTIP_FORWARD(cuCtxGetDevice, (CUdevice * device), (device))
AOTIP_FORWARD(cuCtxSynchronize, (), ())
AOTIP_FORWARD(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name),
              (function, module, name))
AOTIP_FORWARD(cuModuleGetGlobal,
              (CUdeviceptr * address, size_t* nbytes, CUmodule module, const char* name),
              (address, nbytes, module, name))
AOTIP_FORWARD(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute which, int value),
              (function, which, value))
AOTIP_FORWARD(cuFuncGetAttribute, (int* value, CUfunction_attribute which, CUfunction function),
              (value, which, function))
AOTIP_FORWARD(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config), (function, config))
AOTIP_FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessor,
              (int* blocks, CUfunction function, int threads, size_t shared_nbytes),
              (blocks, function, threads, shared_nbytes))
AOTIP_FORWARD(cuLaunchKernel,
              (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
               unsigned int block_x, unsigned int block_y, unsigned int block_z,
               unsigned int shared_nbytes, CUstream stream, void** parameters, void** extra),
              (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_nbytes, stream,
               parameters, extra))
AOTIP_FORWARD(cuLaunchCooperativeKernel,
              (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
               unsigned int block_x, unsigned int block_y, unsigned int block_z,
               unsigned int shared_nbytes, CUstream stream, void** parameters),
              (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_nbytes, stream,
               parameters))
AOTIP_FORWARD(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream),
              (dst, src, nbytes, stream))
AOTIP_FORWARD(cuMemcpyDtoDAsync, (CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream),
              (dst, src, nbytes, stream))
AOTIP_FORWARD(cuMemcpyHtoDAsync, (CUdeviceptr dst, const void* src, size_t nbytes, CUstream stream),
              (dst, src, nbytes, stream))
AOTIP_FORWARD(cuMemcpyDtoHAsync, (void* dst, CUdeviceptr src, size_t nbytes, CUstream stream),
              (dst, src, nbytes, stream))
AOTIP_FORWARD(cuMemsetD8Async,
              (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream),
              (dst, value, count, stream))
AOTIP_FORWARD(cuMemsetD32Async,
              (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream),
              (dst, value, count, stream))
AOTIP_FORWARD(cuPointerGetAttribute, (void* value, CUpointer_attribute which, CUdeviceptr address),
              (value, which, address))
AOTIP_FORWARD(cuStreamSynchronize, (CUstream stream), (stream))
AOTIP_FORWARD(cuStreamQuery, (CUstream stream), (stream))
AOTIP_FORWARD(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
              (stream, event, flags))
AOTIP_FORWARD(cuEventCreate, (CUevent * event, unsigned int flags), (event, flags))
AOTIP_FORWARD(cuEventDestroy, (CUevent event), (event))
AOTIP_FORWARD(cuEventRecord, (CUevent event, CUstream stream), (event, stream))
AOTIP_FORWARD(cuEventQuery, (CUevent event), (event))
AOTIP_FORWARD(cuEventSynchronize, (CUevent event), (event))

// Newer than the oldest driver that we take.
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                  void** parameters, void** extra) {
  if (open_driver() == nullptr || driver().cuLaunchKernelEx == nullptr) {
    return noted("cuLaunchKernelEx (CUDA 11.8)", CUDA_ERROR_NOT_SUPPORTED);
  }
  return noted("cuLaunchKernelEx", driver().cuLaunchKernelEx(config, function, parameters, extra));
}

/// cuLaunchKernel for kernels that wait for their inputs by themselves.
__attribute__((visibility("default"))) CUresult CUDAAPI aotip_launch_early(
    CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
    unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_nbytes,
    CUstream stream, void** parameters, void**) {
  if (__builtin_expect(open_driver() == nullptr, 0)) {
    return CUDA_ERROR_NO_DEVICE;
  }
  const cuda::Launch launch{
      function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_nbytes, stream};
  return noted("cuLaunchKernelEx", cuda::launch_early(launch, parameters));
}

CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType dtype, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (open_driver() == nullptr || driver().cuTensorMapEncodeTiled == nullptr) {
    return noted("cuTensorMapEncodeTiled (CUDA 12.0)", CUDA_ERROR_NOT_SUPPORTED);
  }
  return noted(
      "cuTensorMapEncodeTiled",
      driver().cuTensorMapEncodeTiled(map, dtype, rank, address, sizes, strides, box,
                                      element_strides, interleave, swizzle, promotion, fill));
}

}  // extern "C"
