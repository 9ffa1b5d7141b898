// A stand-in for what AOTInductor compiles for CUDA, as tests/fake_model is for the CPU.
//
//   y [n, 3] float32 = x [n, 3] * scale [3] + calls,   with calls, a mutable buffer, counted up
//
// It does what generated code does: guards, a kernel from a container that is loaded on first use,
// memory from the shims. With FAKE_BAD_KERNEL the container has nothing for the GPU, with
// FAKE_NO_KERNEL the image lacks the kernel; with
// FAKE_LEAKS_MODULE the container stays loaded, as with PyTorch 2.11.

#include <aoti_plugins/cuda_shim.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

struct Pair {
  const char* name;
  AtenTensorHandle handle;
};

namespace {

// Not per thread as in real models: the leak checker trips over the thread-local memory of a
// library that is gone. tests/fake_model has it per thread.
std::string last_error;

struct Container {
  AtenTensorHandle scale = nullptr;
  AtenTensorHandle calls = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  int32_t device = 0;
};

void check(AOTITorchError code) {
  if (code != 0) {
    throw std::runtime_error("a shim failed");
  }
}

void check_driver(CUresult code) {
  const char* text = nullptr;
  if (cuGetErrorString(code, &text) != CUDA_SUCCESS || code != CUDA_SUCCESS) {
    throw std::runtime_error(std::string("CUDA driver error: ") + text);
  }
}

/// A kernel container with one image, as aoti_plugins/cuda writes them.
const void* container_image() {
  alignas(64) static char bytes[192] = {};
  const uint32_t count = 1;
  const uint32_t kind = 1;
#ifdef FAKE_BAD_KERNEL
  const uint32_t arch = 80;
#else
  const uint32_t arch = 90;
#endif
  const uint64_t offset = 128;
  const uint64_t nbytes = 64;
  std::memcpy(bytes, "AOTIKRN1", 8);
  std::memcpy(bytes + 8, &count, 4);
  std::memcpy(bytes + 12, &kind, 4);
  std::memcpy(bytes + 16, &arch, 4);
  std::memcpy(bytes + 20, &offset, 8);
  std::memcpy(bytes + 28, &nbytes, 8);
  std::memcpy(bytes + 128, "\177ELF", 4);
  return bytes;
}

CUdeviceptr address_of(AtenTensorHandle tensor) {
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(tensor, &data));
  return reinterpret_cast<CUdeviceptr>(data);
}

void load_kernel(Container* model) {
  if (model->kernel != nullptr) {
    return;
  }
  check_driver(cuModuleLoadData(&model->module, container_image()));
#ifdef FAKE_NO_KERNEL
  check_driver(cuModuleGetFunction(&model->kernel, model->module, "not_there"));
#else
  check_driver(cuModuleGetFunction(&model->kernel, model->module, "fake_scale_add"));
#endif
}

struct Deleter {
  void operator()(AtenTensorOpaque* handle) const { aoti_torch_delete_tensor_object(handle); }
};
using Owned = std::unique_ptr<AtenTensorOpaque, Deleter>;

Owned empty_rows(const int64_t* sizes, int32_t device) {
  const int64_t strides[] = {3, 1};
  AtenTensorHandle handle = nullptr;
  check(aoti_torch_empty_strided(2, sizes, strides, aoti_torch_dtype_float32(),
                                 aoti_torch_device_type_cuda(), device, &handle));
  return Owned(handle);
}

struct StreamGuard {
  CUDAStreamGuardHandle handle = nullptr;
  StreamGuard(void* stream, int32_t device) {
    check(aoti_torch_create_cuda_stream_guard(stream, device, &handle));
  }
  ~StreamGuard() { aoti_torch_delete_cuda_stream_guard(handle); }
};

void run(Container* model, AtenTensorHandle* inputs, AtenTensorHandle* outputs, void* stream) {
  const Owned x(inputs[0]);
  inputs[0] = nullptr;
  const StreamGuard guard(stream, model->device);
  load_kernel(model);
  int64_t* sizes = nullptr;
  check(aoti_torch_get_sizes(x.get(), &sizes));
  empty_rows(sizes, model->device).reset();  // memory that the result may get
  Owned y = empty_rows(sizes, model->device);
  CUdeviceptr y_ptr = address_of(y.get());
  CUdeviceptr x_ptr = address_of(x.get());
  CUdeviceptr scale = address_of(model->scale);
  CUdeviceptr calls = address_of(model->calls);
  int64_t k = 0;
  int64_t n = sizes[0] * 3;
  void* arguments[] = {&y_ptr, &x_ptr, &scale, &calls, &k, &n};
  if (n > 0) {
    AOTIP_KERNEL_BEGIN("fake_scale_add:0");
    check_driver(cuLaunchKernel(model->kernel, 1, 1, 1, 32, 1, 1, 0, static_cast<CUstream>(stream),
                                arguments, nullptr));
    AOTIP_KERNEL_END(AOTIP_KERNEL_OUTPUT("fake_scale_add:0.y", y.get(), -1, {})
                         AOTIP_KERNEL_OUTPUT("fake_scale_add:0.row", y.get(), 2, {1, n}));
  }
  outputs[0] = y.release();
}

}  // namespace

FAKE_EXPORT int32_t AOTInductorModelContainerCreateWithDevice(Container** ret, size_t,
                                                              const char* device, const char*) {
  *ret = new Container();
  (*ret)->device = std::string(device) == "cuda:1" ? 1 : 0;
  int current = -1;
  return cudaSetDevice((*ret)->device) == cudaSuccess && cudaGetDevice(&current) == cudaSuccess &&
                 current == (*ret)->device
             ? 0
             : 1;
}

FAKE_EXPORT int32_t AOTInductorModelContainerDelete(Container* model) {
#ifndef FAKE_LEAKS_MODULE
  if (model->module != nullptr) {
    (void)cuModuleUnload(model->module);
  }
#endif
  delete model;
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetNumInputs(Container*, size_t* ret) {
  *ret = 1;
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerGetNumOutputs(Container*, size_t* ret) {
  *ret = 1;
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerGetNumConstants(Container*, size_t* ret) {
  *ret = 2;
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantName(Container*, size_t i,
                                                             const char** ret) {
  *ret = i == 0 ? "scale_0" : "calls_0";
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantOriginalFQN(Container*, size_t i,
                                                                    const char** ret) {
  *ret = i == 0 ? "layer.scale" : "calls";
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantDtype(Container*, size_t i, int32_t* ret) {
  *ret = i == 0 ? aoti_torch_dtype_float32() : aoti_torch_dtype_int64();
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(Container* model,
                                                                                  const Pair* pairs,
                                                                                  size_t count,
                                                                                  bool, bool) {
  for (size_t i = 0; i < count; ++i) {
    const bool scale = std::string(pairs[i].name) == "scale_0";
    (scale ? model->scale : model->calls) = pairs[i].handle;
  }
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerRunSingleThreaded(Container* model,
                                                               AtenTensorHandle* inputs, size_t,
                                                               AtenTensorHandle* outputs, size_t,
                                                               void* stream, void*) {
  try {
    run(model, inputs, outputs, stream);
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}
FAKE_EXPORT int32_t AOTInductorGetLastError(const char** ret) {
  *ret = last_error.c_str();
  return 0;
}
