#include "cpu/ops/dense.h"

#include "ops/conv_plan.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {

const Tensor* as_dense(const Tensor& tensor, int32_t dtype, OwnedTensor* owner) {
  return as_conv_layout(tensor, dtype, false, owner);
}

const Tensor* as_conv_layout(const Tensor& tensor, int32_t dtype, bool channels_last,
                             OwnedTensor* owner) {
  if (tensor.dtype() == dtype && (tensor.numel() == 0 || has_conv_strides(tensor, channels_last))) {
    return &tensor;
  }
  int64_t strides[Tensor::kMaxDims];
  conv_strides(tensor.ndim(), tensor.sizes(), channels_last, strides);
  owner->reset(Tensor::empty_strided(tensor.ndim(), tensor.sizes(), strides, dtype, Device{}));
  const bool copied = *owner != nullptr && strided_copy(**owner, tensor) == Status::kOk;
  return copied ? owner->get() : nullptr;
}

}  // namespace aoti_plugins::cpu
