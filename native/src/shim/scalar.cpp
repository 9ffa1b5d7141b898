// A tensor with one element to a number, and back.

#include <c10/util/complex.h>

#include <complex>

#include "shim/run_shim.h"
#include "slim/element.h"

using namespace aoti_plugins;

namespace {

/// Reads the only element of `handle` as `dtype` into `ret`, which has the size of that dtype.
Status item(AtenTensorHandle handle, int32_t dtype, void* ret) {
  AOTIP_CHECK_TENSORS(handle);
  AOTIP_CHECK_ARG(ret);
  const Tensor* tensor = unwrap(handle);
  AOTIP_CHECK(tensor->numel() == 1, "expected a tensor with one element, found %lld",
              static_cast<long long>(tensor->numel()));
  AOTIP_CHECK(is_convertible(tensor->dtype()), "no conversion from %s to a number",
              dtype_name(tensor->dtype()));
  alignas(16) char bytes[16];
  DeviceInterface* device = find_device(tensor->device().type);
  AOTIP_CHECK(device != nullptr, "no device of type %s in this process",
              device_type_name(tensor->device().type));
  AOTIP_RETURN_IF_FAILED(
      device->copy_to_host(bytes, tensor->data(), tensor->itemsize(), tensor->device().index));
  store_element(ret, dtype, load_element(bytes, tensor->dtype()));
  return Status::kOk;
}

template <typename T>
Status scalar_to_tensor(T value, int32_t dtype, AtenTensorHandle* ret) {
  AOTIP_CHECK_ARG(ret);
  Tensor* tensor = Tensor::empty(0, nullptr, dtype, Device{});
  if (tensor != nullptr) {
    static_assert(sizeof(T) <= 16, "an element");
    __builtin_memcpy(tensor->data(), &value, sizeof(T));
  }
  return give(tensor, ret);
}

}  // namespace

#define AOTIP_DEFINE_ITEM(name, ctype, dtype)                                        \
  AOTITorchError aoti_torch_item_##name(AtenTensorHandle tensor, ctype* ret_value) { \
    return run_shim(__func__, [&] { return item(tensor, dtype, ret_value); });       \
  }

#define AOTIP_DEFINE_SCALAR_TO_TENSOR(name, ctype, dtype)                                 \
  AOTITorchError aoti_torch_scalar_to_tensor_##name(ctype value, AtenTensorHandle* ret) { \
    return run_shim(__func__, [&] { return scalar_to_tensor(value, dtype, ret); });       \
  }

AOTIP_DEFINE_ITEM(float16, c10::Half, kFloat16)
AOTIP_DEFINE_ITEM(bfloat16, c10::BFloat16, kBFloat16)
AOTIP_DEFINE_ITEM(float32, float, kFloat32)
AOTIP_DEFINE_ITEM(float64, double, kFloat64)
AOTIP_DEFINE_ITEM(uint8, uint8_t, kUInt8)
AOTIP_DEFINE_ITEM(uint16, uint16_t, kUInt16)
AOTIP_DEFINE_ITEM(uint32, uint32_t, kUInt32)
AOTIP_DEFINE_ITEM(uint64, uint64_t, kUInt64)
AOTIP_DEFINE_ITEM(int8, int8_t, kInt8)
AOTIP_DEFINE_ITEM(int16, int16_t, kInt16)
AOTIP_DEFINE_ITEM(int32, int32_t, kInt32)
AOTIP_DEFINE_ITEM(int64, int64_t, kInt64)
AOTIP_DEFINE_ITEM(bool, bool, kBool)
AOTIP_DEFINE_ITEM(complex64, c10::complex<float>, kComplex64)

AOTIP_DEFINE_SCALAR_TO_TENSOR(float32, float, kFloat32)
AOTIP_DEFINE_SCALAR_TO_TENSOR(float64, double, kFloat64)
AOTIP_DEFINE_SCALAR_TO_TENSOR(uint8, uint8_t, kUInt8)
AOTIP_DEFINE_SCALAR_TO_TENSOR(uint16, uint16_t, kUInt16)
AOTIP_DEFINE_SCALAR_TO_TENSOR(uint32, uint32_t, kUInt32)
AOTIP_DEFINE_SCALAR_TO_TENSOR(uint64, uint64_t, kUInt64)
AOTIP_DEFINE_SCALAR_TO_TENSOR(int8, int8_t, kInt8)
AOTIP_DEFINE_SCALAR_TO_TENSOR(int16, int16_t, kInt16)
AOTIP_DEFINE_SCALAR_TO_TENSOR(int32, int32_t, kInt32)
AOTIP_DEFINE_SCALAR_TO_TENSOR(int64, int64_t, kInt64)
AOTIP_DEFINE_SCALAR_TO_TENSOR(bool, bool, kBool)
AOTIP_DEFINE_SCALAR_TO_TENSOR(complex64, c10::complex<float>, kComplex64)
AOTIP_DEFINE_SCALAR_TO_TENSOR(complex128, c10::complex<double>, kComplex128)
