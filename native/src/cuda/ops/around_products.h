#pragma once

#include <aoti_plugins/shim.h>

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// What stands around a product of rows [m, k] in language models.
struct Around {
  const Tensor* bias;  ///< [n] as x, or null
  const Tensor*
      norm;  ///< [k] as x, or null: x is divided by the root of its mean square, times this
  const Tensor* residual;  ///< as the result, or null: is added
  double epsilon;          ///< added to the mean square
  int64_t gate;            ///< a Gate of kernels/one_row.h: the result has n / 2 columns
};

/// Whether x is float16 or bfloat16 on a GPU, of rows that kernels can read.
Status check_rows_of_halves(const Tensor& x);

/// Whether bias, norm and gate go with x and `n` columns of the product.
Status check_around(const Tensor& x, const Around& around, int64_t n);

/// Whether no kernel of the program writes bias and norm, so that they may be read early.
bool is_constant(const Around& around);

/// Rows [m, k] divided by the root of their mean square, times the norm's factors, as a new tensor;
/// none where there is no norm.
Status norm_of_rows(const Tensor& x, const Around& around, OwnedTensor* ret);

/// Writes what a gate makes of products [m, 2 n] to `out` [m, n]; both have no gaps.
Status gate_rows(const Tensor& products, int64_t gate, Tensor& out);

/// out += residual; both have no gaps and are float16 or bfloat16.
Status add_residual(const Tensor& residual, Tensor& out);

/// Writes a product of rows [m, k] without gaps, plus the bias, to `out` [m, n].
using MultiplyRows = Status (*)(const Tensor& rows, const void* product, Tensor& out);

/// A product of several rows: kernels for the norm in front of it and for gate and residual behind.
Status product_between(const Tensor& x, const Around& around, int64_t n, MultiplyRows multiply,
                       const void* product, const Tensor* residual, Tensor& out);

/// The same of what is behind a norm.
Status product_before_end(const Tensor& rows, const Around& around, int64_t n,
                          MultiplyRows multiply, const void* product, const Tensor* residual,
                          Tensor& out);

/// A product of rows: writes to `out` [m, columns], which is not empty. Rows and residual have no
/// gaps and are aligned.
using ProductOfRows = Status (*)(const Tensor& rows, const void* product, const Tensor* residual,
                                 Tensor& out);

/// A new tensor, [..., columns] for x [..., k] of any strides, that `compute` writes.
Status product_of_rows(const Tensor& x, const Around& around, int64_t n, ProductOfRows compute,
                       const void* product, AtenTensorHandle* ret);

}  // namespace aoti_plugins::cuda
