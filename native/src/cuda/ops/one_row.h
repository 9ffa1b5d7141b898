#pragma once

#include "cuda/kernels/one_row.h"
#include "cuda/ops/around_products.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// What names a kernel of kernels/one_row.cu, beside what the product says.
struct OneRowKind {
  int64_t bits;      ///< 4 or 8
  const char* kind;  ///< "bf16" or "f16"
  int32_t parts;     ///< of 32 weights after which a group may end
  bool is_constant;  ///< whether no kernel writes weight, bias and norm: read early
};

/// Whether a row of `k` elements fits into a block's memory.
bool fits_one_row(int64_t k) noexcept;

/// Tells kernels what stands around a product.
void set_around(const Around& around, const Tensor* residual, OneRowProduct& product) noexcept;

/// One kernel, launched early on this thread's current stream.
Status one_row(int32_t gpu, const OneRowKind& kind, OneRowProduct& product) noexcept;

}  // namespace aoti_plugins::cuda
