#include "runner/value.h"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <algorithm>
#include <new>

#include "runner/failure.h"
#include "slim/dtype.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::runner {
namespace {

using ::executorch::aten::ScalarType;
using ::executorch::aten::Tensor;
using ::executorch::aten::TensorImpl;
using ::executorch::runtime::EValue;
using ::executorch::runtime::Tag;
using ::executorch::runtime::TensorInfo;

int32_t tag_of(Tag tag) {
  switch (tag) {
    case Tag::None:
      return AOTIP_TAG_NONE;
    case Tag::Tensor:
      return AOTIP_TAG_TENSOR;
    case Tag::Int:
      return AOTIP_TAG_INT;
    case Tag::Double:
      return AOTIP_TAG_DOUBLE;
    case Tag::Bool:
      return AOTIP_TAG_BOOL;
    case Tag::String:
      return AOTIP_TAG_STRING;
    default:
      return AOTIP_TAG_OTHER;
  }
}

const char* tag_text(int32_t tag) {
  const char* const names[] = {"none",   "a tensor",       "an int",  "a float",
                               "a bool", "something else", "a string"};
  return tag >= 0 && tag <= AOTIP_TAG_STRING ? names[tag] : "an unknown tag";
}

void strides_of(const std::vector<uint8_t>& dim_order, const int64_t* sizes, int64_t* ret) {
  int64_t stride = 1;
  for (size_t i = dim_order.size(); i-- > 0;) {
    ret[dim_order[i]] = stride;
    stride *= std::max<int64_t>(sizes[dim_order[i]], 1);
  }
}

std::string list_text(const int64_t* numbers, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  }
  return text + "]";
}

}  // namespace

void set_tensor_data(const Tensor& tensor, void* data) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  tensor.unsafeGetTensorImpl()->set_data(data);
#pragma GCC diagnostic pop
}

Value::Value(const char* what, size_t index, Tag tag) : what_(what), index_(index) {
  info_.tag = tag_of(tag);
}

Value::Value(const char* what, size_t index, const TensorInfo& info) : what_(what), index_(index) {
  const size_t ndim = info.sizes().size();
  max_sizes_.assign(info.sizes().begin(), info.sizes().end());
  dim_order_.assign(info.dim_order().begin(), info.dim_order().end());
  max_strides_.resize(ndim);
  strides_of(dim_order_, max_sizes_.data(), max_strides_.data());
  sizes_ = max_sizes_;
  strides_ = max_strides_;
  et_sizes_.resize(ndim);
  et_strides_.resize(ndim);
  info_.tag = AOTIP_TAG_TENSOR;
  info_.dtype = static_cast<int32_t>(info.scalar_type());
  info_.ndim = static_cast<int32_t>(ndim);
  info_.sizes = max_sizes_.data();
  info_.strides = max_strides_.data();
  info_.nbytes = info.nbytes();
}

std::string Value::describe() const {
  return std::string(dtype_name(info_.dtype)) + " " +
         list_text(max_sizes_.data(), max_sizes_.size());
}

int32_t Value::check_sizes(const aotip_value& value, bool dynamic) const {
  for (size_t d = 0; d < max_sizes_.size(); ++d) {
    const int64_t size = value.sizes[d];
    const bool fits = dynamic ? size >= 0 && size <= max_sizes_[d] : size == max_sizes_[d];
    if (!fits) {
      return failed(Error::InvalidArgument, "%s %zu has sizes %s, expected %s%s (dim %zu differs)",
                    what_, index_, list_text(value.sizes, max_sizes_.size()).c_str(),
                    dynamic ? "at most " : "",
                    list_text(max_sizes_.data(), max_sizes_.size()).c_str(), d);
    }
  }
  return 0;
}

int32_t Value::check_tensor(const aotip_value& value, bool dynamic) const {
  if (value.dtype != info_.dtype || value.ndim != info_.ndim) {
    return failed(Error::InvalidArgument, "%s %zu is %s with %d dims, expected %s", what_, index_,
                  dtype_name(value.dtype), value.ndim, describe().c_str());
  }
  if (!max_sizes_.empty() && value.sizes == nullptr) {
    return failed(Error::InvalidArgument, "%s %zu has no sizes", what_, index_);
  }
  return check_sizes(value, dynamic);
}

int32_t Value::point_to(const aotip_value& value, bool dynamic, const EValue& input) {
  if (!input.isTensor()) {
    return failed(Error::InvalidArgument, "%s %zu is a tensor, expected %s", what_, index_,
                  tag_text(info_.tag));
  }
  if (const int32_t code = check_tensor(value, dynamic)) {
    return code;
  }
  int64_t numel = 1;
  int64_t row_major = 1;
  strides_of(dim_order_, value.sizes, strides_.data());
  for (size_t i = max_sizes_.size(); i-- > 0;) {
    numel *= value.sizes[i];
    const int64_t stride = value.strides != nullptr ? value.strides[i] : row_major;
    row_major *= std::max<int64_t>(value.sizes[i], 1);
    et_sizes_[i] = static_cast<int32_t>(value.sizes[i]);
    if (stride != strides_[i] && value.sizes[i] != 1) {
      return failed(Error::InvalidArgument,
                    "%s %zu has stride %lld in dim %zu, expected %lld: make it contiguous", what_,
                    index_, static_cast<long long>(stride), i, static_cast<long long>(strides_[i]));
    }
  }
  if (value.data == nullptr && numel > 0) {
    return failed(Error::InvalidArgument, "%s %zu has no data", what_, index_);
  }
  const Tensor& tensor = input.toTensor();
  const Error error = ::executorch::runtime::resize_tensor(
      tensor, ::executorch::aten::ArrayRef<::executorch::aten::SizesType>(et_sizes_.data(),
                                                                          et_sizes_.size()));
  if (error != Error::Ok) {
    return failed(error, "%s %zu cannot take this shape", what_, index_);
  }
  set_tensor_data(tensor, value.data);
  return 0;
}

int32_t Value::tensor_to_evalue(const aotip_value& value, bool dynamic, EValue* ret) {
  const size_t ndim = max_sizes_.size();
  if (value.device_type != 0) {
    return failed(Error::InvalidArgument, "%s %zu is on device type %d, expected the cpu (0)",
                  what_, index_, value.device_type);
  }
  if (const int32_t code = check_tensor(value, dynamic)) {
    return code;
  }
  int64_t numel = 1;
  bool dense = true;
  int64_t row_major = 1;
  strides_of(dim_order_, value.sizes, strides_.data());
  for (size_t i = ndim; i-- > 0;) {
    numel *= value.sizes[i];
    et_sizes_[i] = static_cast<int32_t>(value.sizes[i]);
    et_strides_[i] = static_cast<int32_t>(strides_[i]);
    const int64_t stride = value.strides != nullptr ? value.strides[i] : row_major;
    row_major *= std::max<int64_t>(value.sizes[i], 1);
    dense = dense && (stride == strides_[i] || value.sizes[i] == 1);
    sizes_[i] = stride;  // the strides of the source, should a copy be needed
  }
  void* data = value.data;
  if (data == nullptr && numel > 0) {
    return failed(Error::InvalidArgument, "%s %zu has no data", what_, index_);
  }
  if (!dense && numel > 0) {
    const size_t itemsize = element_nbytes(info_.dtype);
    copy_.resize(static_cast<size_t>(numel) * itemsize);
    strided_copy_raw(copy_.data(), strides_.data(), data, sizes_.data(), static_cast<int64_t>(ndim),
                     value.sizes, itemsize);
    data = copy_.data();
  }
  auto* impl =
      new (impl_) TensorImpl(static_cast<ScalarType>(info_.dtype), static_cast<ssize_t>(ndim),
                             et_sizes_.data(), data, dim_order_.data(), et_strides_.data());
  *ret = EValue(Tensor(impl));
  return 0;
}

int32_t Value::to_evalue(const aotip_value& value, bool dynamic, EValue* ret) {
  if (value.tag != info_.tag) {
    return failed(Error::InvalidArgument, "%s %zu is %s, expected %s", what_, index_,
                  tag_text(value.tag), tag_text(info_.tag));
  }
  switch (info_.tag) {
    case AOTIP_TAG_TENSOR:
      return tensor_to_evalue(value, dynamic, ret);
    case AOTIP_TAG_INT:
      *ret = EValue(value.int_value);
      return 0;
    case AOTIP_TAG_DOUBLE:
      *ret = EValue(value.double_value);
      return 0;
    case AOTIP_TAG_BOOL:
      *ret = EValue(value.int_value != 0);
      return 0;
    case AOTIP_TAG_NONE:
      *ret = EValue();
      return 0;
    default:
      return failed(Error::NotSupported, "%s %zu has a type that this API does not carry", what_,
                    index_);
  }
}

void Value::from_evalue(const EValue& evalue, aotip_value* ret) {
  *ret = aotip_value{};
  ret->tag = tag_of(evalue.tag);
  if (evalue.isInt()) {
    ret->int_value = evalue.toInt();
  } else if (evalue.isDouble()) {
    ret->double_value = evalue.toDouble();
  } else if (evalue.isBool()) {
    ret->int_value = evalue.toBool() ? 1 : 0;
  } else if (evalue.isString()) {
    const auto text = evalue.toString();
    ret->data = const_cast<char*>(text.data());
    ret->nbytes = text.size();
  } else if (evalue.isTensor()) {
    const Tensor& tensor = evalue.toTensor();
    const size_t ndim = tensor.sizes().size();
    sizes_.assign(tensor.sizes().begin(), tensor.sizes().end());
    strides_.assign(tensor.strides().begin(), tensor.strides().end());
    ret->dtype = static_cast<int32_t>(tensor.scalar_type());
    ret->ndim = static_cast<int32_t>(ndim);
    ret->sizes = sizes_.data();
    ret->strides = strides_.data();
    ret->data = tensor.mutable_data_ptr();
    ret->nbytes = tensor.nbytes();
  }
}

}  // namespace aoti_plugins::runner
