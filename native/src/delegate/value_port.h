#pragma once

#include <executorch/runtime/core/evalue.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "delegate/delegate_device.h"
#include "delegate/payload.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// One input or output of a delegate, prepared for the call path.
class ValuePort {
 public:
  /// @param what "input" or "output", for messages; a literal.
  ValuePort(const char* what, size_t index, const ValueSpec& spec);

  /// A tensor for the model over the memory of `value`, or with a copy of it where the device or
  /// the layout is not the model's; numbers become 0-dim tensors on the CPU. The handle is the
  /// caller's. Fails, naming this port, when kind, dtype, rank or a size is not as promised.
  Status to_model(const ::executorch::runtime::EValue& value, DeviceSession& session,
                  Tensor** ret) const noexcept;

  /// Resizes the tensor in `value` and tells where its elements are; null for what is no tensor.
  Status place(int64_t ndim, const int64_t* sizes, ::executorch::runtime::EValue* value,
               void** ret_data) const noexcept;

  /// Whether a result has dtype and strides of this port, whose tensor in the program is `value`.
  bool has_layout(const Tensor& result, const ::executorch::runtime::EValue& value) const noexcept;

  /// Writes what the model returned to `value`: resizes the tensor, copies the elements.
  Status from_model(const Tensor& result, DeviceSession& session,
                    ::executorch::runtime::EValue* value) const noexcept;

 private:
  using ETensor = ::executorch::aten::Tensor;

  Status check_tensor(const ETensor& tensor) const noexcept;
  Status check_any_tensor(const ETensor& tensor) const noexcept;
  void expected_strides(const ETensor& tensor, const int64_t* sizes, int64_t* ret) const noexcept;
  Status wrap_tensor(const ETensor& tensor, DeviceSession& session, Tensor** ret) const noexcept;
  Status wrap_number(const ::executorch::runtime::EValue& value, Tensor** ret) const noexcept;
  Status resize(int64_t ndim, const int64_t* sizes, const ETensor& tensor) const noexcept;
  Status write_tensor(const Tensor& result, DeviceSession& session,
                      const ETensor& tensor) const noexcept;
  Status write_number(const Tensor& result, ::executorch::runtime::EValue* value) const noexcept;

  const char* what_;
  size_t index_;
  ValueSpec spec_;
  bool takes_any_;  ///< a tensor of any dtype and layout: the program's is right
};

}  // namespace aoti_plugins
