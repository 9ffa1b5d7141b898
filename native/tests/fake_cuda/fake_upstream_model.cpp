// A stand-in for a blob of ExecuTorch's own CUDA backend, as fake_cuda_model.cpp is for ours:
//
//   y [n, 3] float32 = x [n, 3] * scale [3] + calls + start,   with calls, a mutable buffer,
//   counted up, and start, an int64 on the host
//
// It is compiled without our headers and linked with none of our libraries: it calls shims, cudart
// and the driver by their own names, and has what keeps a library mapped (a unique symbol, a
// destructor of a thread). With FAKE_UNKNOWN it calls functions that we do not have; with FAKE_OLD
// it lacks those that take packed weights.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;

extern "C" {
int32_t aoti_torch_get_data_ptr(AtenTensorHandle, void**);
int32_t aoti_torch_get_sizes(AtenTensorHandle, int64_t**);
int32_t aoti_torch_delete_tensor_object(AtenTensorHandle);
int32_t aoti_torch_empty_strided(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t,
                                 AtenTensorHandle*);
int32_t aoti_torch_create_tensor_from_blob_v2(void*, int64_t, const int64_t*, const int64_t*,
                                              int64_t, int32_t, int32_t, int32_t, AtenTensorHandle*,
                                              int32_t, const uint8_t*, int64_t);
int32_t aoti_torch_create_cuda_stream_guard(void*, int32_t, void**);
int32_t aoti_torch_delete_cuda_stream_guard(void*);
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_int64();
int32_t aoti_torch_device_type_cuda();
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_layout_strided();
int32_t aoti_torch_cuda_int2_plain_mm();
int32_t aoti_torch_cuda_int3_plain_mm();
}

struct Pair {
  const char* name;
  AtenTensorHandle handle;
};

/// GCC makes its instance a symbol that is unique in the process.
template <typename T>
struct Counter {
  static inline int live = 0;
};

namespace {

std::string last_error;

struct AtThreadEnd {
  ~AtThreadEnd() { --Counter<int>::live; }
};

enum Constant : size_t { kScale, kCalls, kStart, kConstants };

struct Container {
  AtenTensorHandle constants[kConstants] = {};
  void* memory = nullptr;  // of packed constants
  int64_t start = 0;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  int32_t device = 0;
};

void check(int32_t code) {
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

void check_runtime(cudaError_t code) {
  if (code != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(code));
  }
}

void* data_of(AtenTensorHandle tensor) {
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(tensor, &data));
  return data;
}

void load_kernel(Container* model) {
  alignas(64) static const char image[64] = "\177ELF";
  if (model->kernel == nullptr) {
    check_driver(cuModuleLoadData(&model->module, image));
    check_driver(cuModuleGetFunction(&model->kernel, model->module, "fake_scale_add"));
  }
}

void run(Container* model, AtenTensorHandle* inputs, AtenTensorHandle* outputs, void* stream) {
  thread_local AtThreadEnd at_thread_end;
  Counter<int>::live += &at_thread_end != nullptr ? 1 : 0;
  void* guard = nullptr;
  check(aoti_torch_create_cuda_stream_guard(stream, model->device, &guard));
  load_kernel(model);
  int64_t* sizes = nullptr;
  check(aoti_torch_get_sizes(inputs[0], &sizes));
  const int64_t strides[] = {3, 1};
  check(aoti_torch_empty_strided(2, sizes, strides, aoti_torch_dtype_float32(),
                                 aoti_torch_device_type_cuda(), model->device, &outputs[0]));
  void* y = data_of(outputs[0]);
  void* x = data_of(inputs[0]);
  void* scale = data_of(model->constants[kScale]);
  void* calls = data_of(model->constants[kCalls]);
  int64_t k = *static_cast<const int64_t*>(data_of(model->constants[kStart]));
  int64_t n = sizes[0] * 3;
  void* arguments[] = {&y, &x, &scale, &calls, &k, &n};
  if (n > 0) {
    check_driver(cuLaunchKernel(model->kernel, 1, 1, 1, 32, 1, 1, 0, static_cast<CUstream>(stream),
                                arguments, nullptr));
  }
  check(aoti_torch_delete_tensor_object(inputs[0]));
  inputs[0] = nullptr;
  check(aoti_torch_delete_cuda_stream_guard(guard));
#ifdef FAKE_UNKNOWN
  check(aoti_torch_cuda_int3_plain_mm() + aoti_torch_cuda_int2_plain_mm());
  check_runtime(cudaDeviceReset());
#endif
}

template <typename Body>
int32_t guarded(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

#ifndef FAKE_OLD

constexpr size_t kPacked = 64;

void set_packed(Container* model, const uint8_t* blob) {
  const int64_t three[] = {3};
  const int64_t one[] = {1};
  check_runtime(cudaMalloc(&model->memory, 2 * kPacked));
  check_runtime(cudaMemcpy(model->memory, blob, 2 * kPacked, cudaMemcpyHostToDevice));
  model->start = *reinterpret_cast<const int64_t*>(blob + 2 * kPacked);
  const auto make = [&](size_t index, void* data, int64_t ndim, int32_t dtype,
                        int32_t device_type) {
    const bool on_gpu = device_type == aoti_torch_device_type_cuda();
    check(aoti_torch_create_tensor_from_blob_v2(
        data, ndim, three, one, 0, dtype, device_type, on_gpu ? model->device : 0,
        &model->constants[index], aoti_torch_layout_strided(), nullptr, 0));
  };
  char* memory = static_cast<char*>(model->memory);
  make(kScale, memory, 1, aoti_torch_dtype_float32(), aoti_torch_device_type_cuda());
  make(kCalls, memory + kPacked, 0, aoti_torch_dtype_int64(), aoti_torch_device_type_cuda());
  make(kStart, &model->start, 0, aoti_torch_dtype_int64(), aoti_torch_device_type_cpu());
}

#endif

}  // namespace

FAKE_EXPORT int32_t AOTInductorModelContainerCreateWithDevice(Container** ret, size_t,
                                                              const char* device, const char*) {
  *ret = new Container();
  (*ret)->device = std::string(device) == "cuda:1" ? 1 : 0;
  return cudaSetDevice((*ret)->device) == cudaSuccess ? 0 : 1;
}
FAKE_EXPORT int32_t AOTInductorModelContainerDelete(Container* model) {
  if (model->module != nullptr) {
    (void)cuModuleUnload(model->module);
  }
  if (model->memory != nullptr) {  // its own constants
    for (AtenTensorHandle handle : model->constants) {
      (void)aoti_torch_delete_tensor_object(handle);
    }
    (void)cudaFree(model->memory);
  }
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
  *ret = kConstants;
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantName(Container*, size_t i,
                                                             const char** ret) {
  const char* const names[] = {"scale_0", "calls_0", "start_0"};
  *ret = names[i];
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantOriginalFQN(Container*, size_t i,
                                                                    const char** ret) {
  const char* const names[] = {"layer.scale", "calls", "start"};
  *ret = names[i];
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantDtype(Container*, size_t i, int32_t* ret) {
  *ret = i == kScale ? aoti_torch_dtype_float32() : aoti_torch_dtype_int64();
  return 0;
}
#ifndef FAKE_OLD
FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantDataSize(Container*, size_t, size_t* ret) {
  *ret = kPacked;
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelUpdateConstantsFromBlob(Container* model, const uint8_t* blob) {
  return guarded([&] { set_packed(model, blob); });
}
#endif
FAKE_EXPORT int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(Container* model,
                                                                                  const Pair* pairs,
                                                                                  size_t count,
                                                                                  bool, bool) {
  for (size_t i = 0; i < count; ++i) {
    const std::string name = pairs[i].name;
    model->constants[name == "scale_0"   ? kScale
                     : name == "calls_0" ? kCalls
                                         : kStart] = pairs[i].handle;
  }
  return 0;
}
FAKE_EXPORT int32_t AOTInductorModelContainerRun(Container* model, AtenTensorHandle* inputs, size_t,
                                                 AtenTensorHandle* outputs, size_t, void* stream,
                                                 void*) {
  return guarded([&] { run(model, inputs, outputs, stream); });
}
FAKE_EXPORT int32_t AOTInductorGetLastError(const char** ret) {
  *ret = last_error.c_str();
  return 0;
}
