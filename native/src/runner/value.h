#pragma once

#include <aoti_plugins/runner.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/tag.h>
#include <executorch/runtime/executor/method_meta.h>

#include <cstdint>
#include <string>
#include <vector>

namespace aoti_plugins::runner {

/// Puts other memory under a tensor of the method.
void set_tensor_data(const ::executorch::aten::Tensor& tensor, void* data);

/// One input or output of a method: what it may be, and the memory for what it is in the current
/// call.
class Value {
 public:
  /// An input or output that is no tensor.
  Value(const char* what, size_t index, ::executorch::runtime::Tag tag);

  /// A tensor with its largest sizes.
  Value(const char* what, size_t index, const ::executorch::runtime::TensorInfo& info);

  const aotip_value& info() const { return info_; }
  const std::vector<uint8_t>& dim_order() const { return dim_order_; }

  /// Checks `value` against what the method takes and makes an EValue of it, which borrows the
  /// memory of `value` or of this object. `dynamic` allows sizes below the largest. 0, or a code
  /// after `failed()`.
  int32_t to_evalue(const aotip_value& value, bool dynamic, ::executorch::runtime::EValue* ret);

  /// Checks a tensor against what the method takes, and makes `input`, the method's own value, be
  /// that tensor: its sizes, and its memory, the host's or a GPU's, in place of the planned one.
  int32_t point_to(const aotip_value& value, bool dynamic,
                   const ::executorch::runtime::EValue& input);

  /// Describes an EValue of the method; sizes and strides are this object's.
  void from_evalue(const ::executorch::runtime::EValue& evalue, aotip_value* ret);

 private:
  int32_t tensor_to_evalue(const aotip_value& value, bool dynamic,
                           ::executorch::runtime::EValue* ret);
  int32_t check_sizes(const aotip_value& value, bool dynamic) const;
  int32_t check_tensor(const aotip_value& value, bool dynamic) const;
  std::string describe() const;

  const char* what_;
  size_t index_;
  aotip_value info_{};
  std::vector<int64_t> max_sizes_;
  std::vector<int64_t> max_strides_;
  std::vector<uint8_t> dim_order_;
  // The current call.
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  std::vector<int32_t> et_sizes_;
  std::vector<int32_t> et_strides_;
  std::vector<uint8_t> copy_;
  alignas(
      ::executorch::aten::TensorImpl) unsigned char impl_[sizeof(::executorch::aten::TensorImpl)];
};

/// Whether a value is a tensor that is planned on a GPU.
inline bool is_on_gpu(const ::executorch::runtime::EValue& value) {
  return value.isTensor() && value.toTensor().device_type() == ::executorch::aten::DeviceType::CUDA;
}

}  // namespace aoti_plugins::runner
