#pragma once

// What products with weights of few bits share: sums are float32, whatever x and the result are.

#include <aoti_plugins/shim.h>

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// Rows of x: all but its last dim.
int64_t rows_of(const Tensor& x);

/// Adds one number to each column of [rows, n]. `bias` has n floats of any kind, or is null.
Status add_bias(const Tensor* bias, int64_t rows, int64_t n, float* out);

/// The result of a product, and where its sums go.
struct FloatProduct {
  OwnedTensor out;
  OwnedTensor floats;  ///< none where `out` is float32

  float* data() const { return (floats != nullptr ? floats : out)->data_as<float>(); }
};

/// A new tensor [..., n] of a dtype for x [..., k].
Status begin_float_product(const Tensor& x, int64_t n, int32_t dtype, FloatProduct* ret);

/// Converts the sums to what the result is.
Status end_float_product(FloatProduct& product, AtenTensorHandle* ret);

/// A new tensor [..., n] of a dtype for x [..., k]: what `multiply(sums)` writes to float32
/// [rows, n]. It is not called where there is nothing to write.
template <typename Multiply>
Status make_float_product(const Tensor& x, int64_t n, int32_t dtype, AtenTensorHandle* ret,
                          const Multiply& multiply) {
  FloatProduct product;
  AOTIP_RETURN_IF_FAILED(begin_float_product(x, n, dtype, &product));
  if (product.out->numel() > 0) {
    AOTIP_RETURN_IF_FAILED(multiply(product.data()));
  }
  return end_float_product(product, ret);
}

}  // namespace aoti_plugins::cpu
