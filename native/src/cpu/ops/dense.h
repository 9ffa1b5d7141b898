#pragma once

#include <cstdint>

#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// `tensor` itself where it has a dtype and is row-major without gaps, or else a copy that does and
/// is, owned by `*owner`. Null when memory runs out.
const Tensor* as_dense(const Tensor& tensor, int32_t dtype, OwnedTensor* owner);

/// Its elements.
template <typename T>
const T* as_dense(const Tensor& tensor, int32_t dtype, OwnedTensor* owner) {
  const Tensor* dense = as_dense(tensor, dtype, owner);
  return dense != nullptr ? dense->data_as<T>() : nullptr;
}

/// The same in the layout of a convolution: row-major, or channels-last.
const Tensor* as_conv_layout(const Tensor& tensor, int32_t dtype, bool channels_last,
                             OwnedTensor* owner);

}  // namespace aoti_plugins::cpu
