// A stand-in for what AOTInductor compiles, small enough to fail on request.
//
//   y [n, 3] float32 = x [n, 3] * scale [3] + k + calls,   and calls, how often it ran before
//
// `scale` is a parameter, `calls` a mutable buffer; k and calls are ints. One macro per defect, and
// FAKE_ONE_INPUT for a model without k and without the second output.

#include <aoti_plugins/shim.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

#ifdef FAKE_CALLS_UNKNOWN_SHIM
extern "C" AOTITorchError aoti_torch_cpu_unheard_of(AtenTensorHandle tensor);
#endif

struct Pair {
  const char* name;
  AtenTensorHandle handle;
};

namespace {

// With a destructor, as in real models: it must not keep the blob in memory.
thread_local std::string last_error;

#ifdef FAKE_ONE_INPUT
constexpr bool kHasK = false;
#else
constexpr bool kHasK = true;
#endif

struct Container {
  AtenTensorHandle scale = nullptr;
  AtenTensorHandle calls = nullptr;
};

void check(AOTITorchError code) {
  if (code != 0) {
    throw std::runtime_error("a shim failed");
  }
}

template <typename T>
T* data_of(AtenTensorHandle tensor) {
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(tensor, &data));
  return static_cast<T*>(data);
}

void run(Container* model, AtenTensorHandle* inputs, AtenTensorHandle* outputs) {
  const AtenTensorHandle x = inputs[0];
  const AtenTensorHandle k_tensor = kHasK ? inputs[1] : nullptr;
#ifdef FAKE_THROWS_BEFORE_TAKING_INPUTS
  throw std::runtime_error(
      "thrown before the inputs were taken, for a reason longer than a few bytes");
#endif
  inputs[0] = nullptr;
  if (kHasK) {
    inputs[1] = nullptr;
  }
  int64_t* sizes = nullptr;
  int64_t k = 0;
  check(aoti_torch_get_sizes(x, &sizes));
  if (kHasK) {
    check(aoti_torch_item_int64(k_tensor, &k));
  }
  const int64_t strides[] = {3, 1};
  AtenTensorHandle y = nullptr;
  int32_t dtype = aoti_torch_dtype_float32();
#ifdef FAKE_RETURNS_WRONG_DTYPE
  dtype = aoti_torch_dtype_int32();
#endif
  check(aoti_torch_empty_strided(2, sizes, strides, dtype, aoti_torch_device_type_cpu(), 0, &y));
  int64_t* calls = data_of<int64_t>(model->calls);
  const float* scale = data_of<float>(model->scale);
  for (int64_t i = 0; i < sizes[0] * 3; ++i) {
    data_of<float>(y)[i] = data_of<float>(x)[i] * scale[i % 3] + static_cast<float>(k + *calls);
  }
  outputs[0] = y;
  if (kHasK) {
    check(aoti_torch_scalar_to_tensor_int64(*calls, &outputs[1]));
  }
  ++*calls;
  aoti_torch_delete_tensor_object(x);
  aoti_torch_delete_tensor_object(k_tensor);
#ifdef FAKE_CALLS_UNKNOWN_SHIM
  check(aoti_torch_cpu_unheard_of(y));
#endif
#ifdef FAKE_RUN_FAILS
  throw std::runtime_error("the model says no, and it says so in a long sentence");
#endif
}

int32_t set_constant(Container* model, const std::string& name, AtenTensorHandle handle) {
  (name == "scale_0" ? model->scale : model->calls) = handle;
  return name == "scale_0" || name == "calls_0" ? 0 : 1;
}

}  // namespace

FAKE_EXPORT int32_t AOTInductorModelContainerCreateWithDevice(Container** ret, size_t num_models,
                                                              const char* device,
                                                              const char* cubin_dir) {
#ifdef FAKE_CREATE_FAILS
  last_error = "no container today";
  return 1;
#else
  *ret = new Container();
  return num_models == 1 && std::string(device) == "cpu" && cubin_dir == nullptr ? 0 : 1;
#endif
}

FAKE_EXPORT int32_t AOTInductorModelContainerDelete(Container* model) {
  delete model;
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetNumInputs(Container*, size_t* ret) {
  *ret = kHasK ? 2 : 1;
  return 0;
}

FAKE_EXPORT int32_t AOTInductorModelContainerGetNumOutputs(Container*, size_t* ret) {
#ifdef FAKE_HAS_THREE_OUTPUTS
  *ret = 3;
#else
  *ret = kHasK ? 2 : 1;
#endif
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

#ifdef FAKE_TAKES_MAP
FAKE_EXPORT int32_t AOTInductorModelContainerUpdateUserManagedConstantBuffer(
    Container* model, std::unordered_map<std::string, AtenTensorHandle>* map, bool, bool) {
  int32_t code = 0;
  for (const auto& [name, handle] : *map) {
    code |= set_constant(model, name, handle);
  }
  return code;
}
#else
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
#endif

#ifndef FAKE_LACKS_RUN
FAKE_EXPORT int32_t AOTInductorModelContainerRunSingleThreaded(Container* model,
                                                               AtenTensorHandle* inputs, size_t,
                                                               AtenTensorHandle* outputs, size_t,
                                                               void*, void*) {
#ifdef FAKE_THROWS_ACROSS
  throw std::runtime_error("thrown across the boundary");
#endif
  try {
    last_error.clear();
    run(model, inputs, outputs);
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}
#endif

FAKE_EXPORT int32_t AOTInductorGetLastError(const char** ret) {
  *ret = last_error.c_str();
  return 0;
}
