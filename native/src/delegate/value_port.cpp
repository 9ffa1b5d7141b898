#include "delegate/value_port.h"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <algorithm>

#include "slim/element.h"

namespace aoti_plugins {
namespace {

using ::executorch::aten::ArrayRef;
using ::executorch::aten::SizesType;
using ::executorch::runtime::Error;
using ::executorch::runtime::EValue;

const char* kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kTensor:
      return "tensor";
    case ValueKind::kInt:
      return "int";
    case ValueKind::kFloat:
      return "float";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kNone:
      return "none";
  }
  return "unknown";
}

/// Sizes and strides of a tensor of the runtime, as SlimTensor counts them.
struct Shape {
  int64_t sizes[Tensor::kMaxDims];
  int64_t strides[Tensor::kMaxDims];

  explicit Shape(const ::executorch::aten::Tensor& tensor) {
    const auto from_sizes = tensor.sizes();
    const auto from_strides = tensor.strides();
    for (size_t d = 0; d < from_sizes.size(); ++d) {
      sizes[d] = from_sizes[d];
      strides[d] = from_strides[d];
    }
  }
};

ValueMemory memory_of(const ::executorch::aten::Tensor& tensor, const Shape& shape, void* data) {
  ValueMemory memory;
  memory.data = data;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const ::executorch::aten::Device device = tensor.unsafeGetTensorImpl()->device();
#pragma GCC diagnostic pop
  memory.device = {static_cast<int32_t>(device.type()), device.index()};
  memory.dtype = static_cast<int32_t>(tensor.scalar_type());
  memory.ndim = tensor.dim();
  memory.sizes = shape.sizes;
  memory.strides = shape.strides;
  return memory;
}

}  // namespace

ValuePort::ValuePort(const char* what, size_t index, const ValueSpec& spec)
    : what_(what),
      index_(index),
      spec_(spec),
      takes_any_(spec.kind == ValueKind::kTensor && spec.dtype == kNoDType) {}

Status ValuePort::check_any_tensor(const ETensor& tensor) const noexcept {
  const int32_t dtype = static_cast<int32_t>(tensor.scalar_type());
  AOTIP_CHECK(element_nbytes(dtype) > 0, "%s %zu has dtype code %d, which is not known", what_,
              index_, dtype);
  AOTIP_CHECK(tensor.dim() <= Tensor::kMaxDims, "%s %zu has %lld dims, expected at most %lld",
              what_, index_, static_cast<long long>(tensor.dim()),
              static_cast<long long>(Tensor::kMaxDims));
  return Status::kOk;
}

Status ValuePort::check_tensor(const ETensor& tensor) const noexcept {
  if (takes_any_) {
    return check_any_tensor(tensor);
  }
  const int32_t dtype = static_cast<int32_t>(tensor.scalar_type());
  AOTIP_CHECK(dtype == static_cast<int32_t>(spec_.dtype), "%s %zu is %s, expected %s", what_,
              index_, dtype_name(dtype), dtype_name(static_cast<int32_t>(spec_.dtype)));
  const auto sizes = tensor.sizes();
  AOTIP_CHECK(sizes.size() == spec_.dims.size(), "%s %zu has %zu dims, expected %zu", what_, index_,
              sizes.size(), spec_.dims.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    const DimBounds& bounds = spec_.dims[d];
    if (sizes[d] >= bounds.min && sizes[d] <= bounds.max) {
      continue;
    }
    AOTIP_CHECK(bounds.min != bounds.max, "%s %zu has size %lld in dim %zu, expected %lld", what_,
                index_, static_cast<long long>(sizes[d]), d, static_cast<long long>(bounds.min));
    return fail("%s %zu has size %lld in dim %zu, expected %lld to %lld", what_, index_,
                static_cast<long long>(sizes[d]), d, static_cast<long long>(bounds.min),
                static_cast<long long>(bounds.max));
  }
  return Status::kOk;
}

void ValuePort::expected_strides(const ETensor& tensor, const int64_t* sizes,
                                 int64_t* ret) const noexcept {
  int64_t stride = 1;
  const auto own_order = tensor.dim_order();
  for (size_t i = takes_any_ ? own_order.size() : spec_.dim_order.size(); i-- > 0;) {
    const uint32_t d = takes_any_ ? own_order[i] : spec_.dim_order[i];
    ret[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
}

Status ValuePort::wrap_tensor(const ETensor& tensor, DeviceSession& session,
                              Tensor** ret) const noexcept {
  AOTIP_RETURN_IF_FAILED(check_tensor(tensor));
  AOTIP_CHECK(tensor.const_data_ptr() != nullptr || tensor.numel() == 0, "%s %zu has no memory",
              what_, index_);
  const Shape shape(tensor);
  int64_t strides[Tensor::kMaxDims];
  expected_strides(tensor, shape.sizes, strides);
  const ValueMemory memory = memory_of(tensor, shape, tensor.mutable_data_ptr());
  const Status status = session.import_tensor(memory, strides, ret);
  AOTIP_CHECK(status == Status::kOk, "%s %zu: %s", what_, index_, last_failure());
  return Status::kOk;
}

Status ValuePort::wrap_number(const EValue& value, Tensor** ret) const noexcept {
  int32_t dtype = kInt64;
  Element element;
  if (spec_.kind == ValueKind::kInt) {
    AOTIP_CHECK(value.isInt(), "%s %zu is no int", what_, index_);
    element.integer = value.toInt();
  } else if (spec_.kind == ValueKind::kFloat) {
    AOTIP_CHECK(value.isDouble(), "%s %zu is no float", what_, index_);
    dtype = kFloat64;
    element.kind = Element::kReal;
    element.real = value.toDouble();
  } else {
    AOTIP_CHECK(value.isBool(), "%s %zu is no bool", what_, index_);
    dtype = kBool;
    element.integer = value.toBool() ? 1 : 0;
  }
  *ret = Tensor::empty(0, nullptr, dtype, Device{});
  AOTIP_RETURN_IF_NULL(*ret);
  store_element((*ret)->data(), dtype, element);
  return Status::kOk;
}

Status ValuePort::to_model(const EValue& value, DeviceSession& session,
                           Tensor** ret) const noexcept {
  switch (spec_.kind) {
    case ValueKind::kTensor:
      AOTIP_CHECK(value.isTensor(), "%s %zu is no tensor", what_, index_);
      return wrap_tensor(value.toTensor(), session, ret);
    case ValueKind::kNone:
      *ret = Tensor::undefined();
      return *ret != nullptr ? Status::kOk : Status::kFailed;
    default:
      return wrap_number(value, ret);
  }
}

Status ValuePort::resize(int64_t ndim, const int64_t* wanted,
                         const ETensor& tensor) const noexcept {
  AOTIP_CHECK(ndim == tensor.dim(),
              "the model returns %lld dims for %s %zu, the program has %lld there",
              static_cast<long long>(ndim), what_, index_, static_cast<long long>(tensor.dim()));
  SizesType sizes[Tensor::kMaxDims];
  bool resize = false;
  for (int64_t d = 0; d < ndim; ++d) {
    sizes[d] = static_cast<SizesType>(wanted[d]);
    resize = resize || sizes[d] != tensor.sizes()[static_cast<size_t>(d)];
  }
  if (resize) {
    const Error error = ::executorch::runtime::resize_tensor(
        tensor, ArrayRef<SizesType>(sizes, static_cast<size_t>(ndim)));
    AOTIP_CHECK(error == Error::Ok,
                "%s %zu does not fit into the memory that the program has for it (%s)", what_,
                index_, ::executorch::runtime::to_string(error));
  }
  return Status::kOk;
}

Status ValuePort::place(int64_t ndim, const int64_t* sizes, EValue* value,
                        void** ret_data) const noexcept {
  *ret_data = nullptr;
  if (spec_.kind != ValueKind::kTensor) {
    return Status::kOk;
  }
  AOTIP_CHECK(value->isTensor(), "%s %zu of the program is no tensor", what_, index_);
  AOTIP_RETURN_IF_FAILED(resize(ndim, sizes, value->toTensor()));
  *ret_data = value->toTensor().mutable_data_ptr();
  return Status::kOk;
}

bool ValuePort::has_layout(const Tensor& result, const EValue& value) const noexcept {
  if (spec_.kind != ValueKind::kTensor || !value.isTensor()) {
    return false;
  }
  const ETensor& tensor = value.toTensor();
  const size_t ndim = takes_any_ ? tensor.dim_order().size() : spec_.dim_order.size();
  const int32_t dtype =
      static_cast<int32_t>(takes_any_ ? static_cast<uint32_t>(tensor.scalar_type()) : spec_.dtype);
  if (static_cast<size_t>(result.ndim()) != ndim || result.dtype() != dtype) {
    return false;
  }
  int64_t strides[Tensor::kMaxDims];
  expected_strides(tensor, result.sizes(), strides);
  for (int64_t d = 0; d < result.ndim(); ++d) {
    if (result.size(d) != 1 && result.stride(d) != strides[d]) {
      return false;
    }
  }
  return true;
}

Status ValuePort::write_tensor(const Tensor& result, DeviceSession& session,
                               const ETensor& tensor) const noexcept {
  const int32_t dtype = static_cast<int32_t>(tensor.scalar_type());
  AOTIP_CHECK(result.dtype() == dtype, "the model returns %s for %s %zu, the program has %s there",
              dtype_name(result.dtype()), what_, index_, dtype_name(dtype));
  AOTIP_RETURN_IF_FAILED(resize(result.ndim(), result.sizes(), tensor));
  if (result.numel() == 0) {
    return Status::kOk;
  }
  void* data = tensor.mutable_data_ptr();
  AOTIP_CHECK(data != nullptr, "%s %zu has no memory: set it before running the method", what_,
              index_);
  const Shape shape(tensor);
  const Status status = session.export_tensor(result, memory_of(tensor, shape, data));
  AOTIP_CHECK(status == Status::kOk, "%s %zu: %s", what_, index_, last_failure());
  return Status::kOk;
}

Status ValuePort::write_number(const Tensor& result, EValue* value) const noexcept {
  AOTIP_CHECK(!value->isTensor(), "%s %zu of the program is a tensor, the model returns one %s",
              what_, index_, kind_name(spec_.kind));
  AOTIP_CHECK(result.numel() == 1 && is_convertible(result.dtype()),
              "the model returns %lld elements of %s for %s %zu, expected one %s",
              static_cast<long long>(result.numel()), dtype_name(result.dtype()), what_, index_,
              kind_name(spec_.kind));
  alignas(16) char bytes[16];
  DeviceInterface* device = find_device(result.device().type);
  AOTIP_CHECK(device != nullptr, "%s %zu is on a device that is not here: %s", what_, index_,
              device_type_name(result.device().type));
  AOTIP_RETURN_IF_FAILED(
      device->copy_to_host(bytes, result.data(), result.itemsize(), result.device().index));
  const Element element = load_element(bytes, result.dtype());
  if (spec_.kind == ValueKind::kInt) {
    int64_t number = 0;
    store_element(&number, kInt64, element);
    *value = EValue(number);
  } else if (spec_.kind == ValueKind::kFloat) {
    double number = 0;
    store_element(&number, kFloat64, element);
    *value = EValue(number);
  } else {
    uint8_t number = 0;
    store_element(&number, kBool, element);
    *value = EValue(number != 0);
  }
  return Status::kOk;
}

Status ValuePort::from_model(const Tensor& result, DeviceSession& session,
                             EValue* value) const noexcept {
  if (spec_.kind == ValueKind::kNone) {
    return Status::kOk;
  }
  AOTIP_CHECK(result.defined(), "the model returns nothing for %s %zu", what_, index_);
  if (spec_.kind != ValueKind::kTensor) {
    return write_number(result, value);
  }
  AOTIP_CHECK(value->isTensor(), "%s %zu of the program is no tensor", what_, index_);
  return write_tensor(result, session, value->toTensor());
}

}  // namespace aoti_plugins
