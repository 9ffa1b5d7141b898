#pragma once

#include "ops/operand.h"
#include "slim/element.h"

namespace aoti_plugins::ops {

/// Sets all elements to one number.
///
/// @tparam D `fill(tensor, element)`, with the bytes of an element.
template <typename D>
Status fill(AtenTensorHandle self, double value) {
  AOTIP_CHECK_TENSORS(self);
  Tensor& tensor = *unwrap(self);
  AOTIP_RETURN_IF_FAILED(check_on(tensor, "self", D::kType));
  AOTIP_CHECK(is_convertible(tensor.dtype()), "a %s tensor cannot be filled",
              dtype_name(tensor.dtype()));
  alignas(16) char bytes[16];
  Element element;
  element.kind = Element::kReal;
  element.real = value;
  store_element(bytes, tensor.dtype(), element);
  return D::fill(tensor, bytes);
}

}  // namespace aoti_plugins::ops
