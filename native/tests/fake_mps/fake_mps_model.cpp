// A stand-in for what AOTInductor compiles for MPS: the same calls in the same order, and no look
// at what those for kernels return.
//
//   y [n, 3] float32 = x [n, 3] * scale [3] + calls,   and calls, how often it ran before
//
// `scale` is a parameter, `calls` a mutable buffer. One macro per defect.

#include <aoti_plugins/mps_shim.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

struct Pair {
  const char* name;
  AtenTensorHandle handle;
};

namespace {

using Function = AOTIMetalKernelFunctionHandle;

const char* const scale_source = R"MTL(
#include <metal_stdlib>
using namespace metal;
#ifdef FAKE_BAD_SHADER
this is no shader
#endif
kernel void generated_kernel(device float* out_ptr0, constant float* in_ptr0,
                             constant float* in_ptr1, constant long* in_ptr2,
                             uint xindex [[thread_position_in_grid]]) {
  out_ptr0[xindex] = in_ptr0[xindex] * in_ptr1[xindex % 3] + static_cast<float>(in_ptr2[0]);
}
)MTL";

const char* const count_source = R"MTL(
#include <metal_stdlib>
using namespace metal;
kernel void generated_kernel(device long* out_ptr0, device long* out_ptr1, constant long& step,
                             uint xindex [[thread_position_in_grid]]) {
  out_ptr1[xindex] = out_ptr0[xindex];
  out_ptr0[xindex] = out_ptr0[xindex] + step;
}
)MTL";

#if defined(FAKE_BAD_SHADER)
#define FAKE_SCALE_SOURCE (std::string("#define FAKE_BAD_SHADER\n") + scale_source).c_str()
#else
#define FAKE_SCALE_SOURCE scale_source
#endif
#if defined(FAKE_NO_KERNEL)
#define FAKE_SCALE_KERNEL "another_kernel"
#else
#define FAKE_SCALE_KERNEL "generated_kernel"
#endif

struct DeleteLibrary {
  void operator()(AOTIMetalShaderLibraryOpaque* library) const {
    aoti_torch_mps_delete_shader_library(library);
  }
};
using Library = std::unique_ptr<AOTIMetalShaderLibraryOpaque, DeleteLibrary>;

std::pair<Function, Library> build(const char* source, const char* name) {
  AOTIMetalShaderLibraryHandle library = nullptr;
  Function function = nullptr;
  aoti_torch_mps_create_shader_library(source, &library);
  aoti_torch_mps_get_kernel_function(library, name, &function);
  return {function, Library(library)};
}

Function scale_kernel() {
  static auto kernel = build(FAKE_SCALE_SOURCE, FAKE_SCALE_KERNEL);
  return kernel.first;
}

Function count_kernel() {
  static auto kernel = build(count_source, "generated_kernel");
  return kernel.first;
}

void callback(Function function, void* user_data) {
  (*static_cast<std::function<void(Function)>*>(user_data))(function);
}

// With a destructor, as in real models.
thread_local std::string last_error;

struct Container {
  AtenTensorHandle scale = nullptr;
  AtenTensorHandle calls = nullptr;
};

void check(AOTITorchError code) {
  if (code != 0) {
    throw std::runtime_error("a shim failed");
  }
}

struct DeleteTensor {
  void operator()(AtenTensorOpaque* tensor) const { aoti_torch_delete_tensor_object(tensor); }
};
using Tensor = std::unique_ptr<AtenTensorOpaque, DeleteTensor>;

Tensor empty(int64_t ndim, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  AtenTensorHandle tensor = nullptr;
  check(aoti_torch_empty_strided(ndim, sizes, strides, dtype, aoti_torch_device_type_mps(), 0,
                                 &tensor));
  return Tensor(tensor);
}

void run(Container* model, AtenTensorHandle* inputs, AtenTensorHandle* outputs) {
  const Tensor x(std::exchange(inputs[0], nullptr));
  int64_t* sizes = nullptr;
  check(aoti_torch_get_sizes(x.get(), &sizes));
  const int64_t strides[] = {3, 1};
  Tensor y = empty(2, sizes, strides, aoti_torch_dtype_float32());
  Tensor before = empty(0, nullptr, nullptr, aoti_torch_dtype_int64());

  std::function<void(Function)> scale = [&](Function handle) {
    aoti_torch_mps_start_encoding(handle);
    aoti_torch_mps_set_arg_tensor(handle, 0, y.get());
    aoti_torch_mps_set_arg_tensor(handle, 1, x.get());
    aoti_torch_mps_set_arg_tensor(handle, 2, model->scale);
#ifndef FAKE_UNBOUND
    aoti_torch_mps_set_arg_tensor(handle, 3, model->calls);
#endif
#ifdef FAKE_LARGE_GROUP
    aoti_torch_mps_dispatch_single_with_group_size(handle, static_cast<uint64_t>(sizes[0] * 3),
                                                   1 << 20);
#else
    aoti_torch_mps_dispatch_single(handle, static_cast<uint64_t>(sizes[0] * 3));
#endif
  };
  aoti_torch_mps_run_command_block(scale_kernel(), callback, &scale);

  std::function<void(Function)> count = [&](Function handle) {
    aoti_torch_mps_start_encoding(handle);
    aoti_torch_mps_set_arg_tensor(handle, 0, model->calls);
    aoti_torch_mps_set_arg_tensor(handle, 1, before.get());
    aoti_torch_mps_set_arg_int(handle, 2, 1);
    aoti_torch_mps_dispatch_single_with_group_size(handle, 1, 1);
  };
  aoti_torch_mps_run_command_block(count_kernel(), callback, &count);

#ifdef FAKE_RUN_FAILS
  throw std::runtime_error("the model says no");
#endif
  outputs[0] = y.release();
  outputs[1] = before.release();
}

int32_t set_constant(Container* model, const std::string& name, AtenTensorHandle handle) {
  (name == "scale_0" ? model->scale : model->calls) = handle;
  return name == "scale_0" || name == "calls_0" ? 0 : 1;
}

}  // namespace

FAKE_EXPORT int32_t AOTInductorModelContainerCreateWithDevice(Container** ret, size_t num_models,
                                                              const char* device, const char*) {
  *ret = new Container();
  return num_models == 1 && std::string(device) == "mps:0" ? 0 : 1;
}

FAKE_EXPORT int32_t AOTInductorModelContainerDelete(Container* model) {
  delete model;
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetNumInputs(Container*, size_t* ret) {
  *ret = 1;
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetNumOutputs(Container*, size_t* ret) {
  *ret = 2;
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetNumConstants(Container*, size_t* ret) {
  *ret = 2;
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantName(Container*, size_t index,
                                                             const char** ret) {
  *ret = index == 0 ? "scale_0" : "calls_0";
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantOriginalFQN(Container*, size_t index,
                                                                    const char** ret) {
  *ret = index == 0 ? "layer.scale" : "calls";
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetConstantDtype(Container*, size_t index,
                                                              int32_t* ret) {
  *ret = index == 0 ? aoti_torch_dtype_float32() : aoti_torch_dtype_int64();
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(Container* model,
                                                                                  const Pair* pairs,
                                                                                  size_t count,
                                                                                  bool, bool) {
  int32_t code = 0;
  for (size_t i = 0; i < count; ++i) {
    code |= set_constant(model, pairs[i].name, pairs[i].handle);
  }
  return code;
}

FAKE_EXPORT int32_t AOTInductorModelContainerRunSingleThreaded(Container* model,
                                                               AtenTensorHandle* inputs, size_t,
                                                               AtenTensorHandle* outputs, size_t,
                                                               void*, void*) {
  try {
    run(model, inputs, outputs);
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
