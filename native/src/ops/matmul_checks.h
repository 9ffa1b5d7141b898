#pragma once

#include "slim/status.h"
#include "slim/tensor.h"

// What the matrix products ask of their arguments before they write anything; a failure's reason
// says which one is wrong, and how.

namespace aoti_plugins::ops {

/// A tensor on `device` with that many dims; with any number of them for -1. `name` is for the
/// reason.
AOTIP_CORE Status check_operand(const Tensor* t, const char* name, int64_t ndim,
                                Device device) noexcept;

/// A tensor on a device of this type that can be written: no stride of 0 lays elements over each
/// other, as PyTorch asks too.
AOTIP_CORE Status check_result(const Tensor* out, int64_t ndim, int32_t device_type) noexcept;

AOTIP_CORE Status check_dtype(const Tensor& t, const char* name, int32_t of_result) noexcept;

/// [m, k] and [k, n] for a result [m, n], with equal batches in front when `batched`.
AOTIP_CORE Status check_sizes(const Tensor& out, const Tensor& a, const Tensor& b,
                              bool batched) noexcept;

/// All of these, for `out = self + a @ b`, and that `self`, which may be null, is of the dtype of
/// `out` and broadcasts to its sizes.
AOTIP_CORE Status check_product(const Tensor* out, const Tensor* self, const Tensor* a,
                                const Tensor* b, bool batched, int32_t device_type) noexcept;

/// Strides of a batch, a row and a column of a product's `self`, 0 where it broadcasts.
struct AddedStrides {
  int64_t batch;
  int64_t row;
  int64_t col;
};

/// Those of a checked `self`.
AOTIP_CORE AddedStrides added_strides(const Tensor& out, const Tensor& self) noexcept;

}  // namespace aoti_plugins::ops
