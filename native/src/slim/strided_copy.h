#pragma once

#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins {

class Tensor;

/// Copies elements between host tensors of equal sizes, whatever their strides; converts when the
/// dtypes differ, as PyTorch's `copy_` does. One memcpy where both sides have the same dense
/// strides.
AOTIP_CORE Status strided_copy(Tensor& dst, const Tensor& src) noexcept;

/// The same for raw host memory of one dtype. `dst` and `src` are the addresses of the first
/// elements; strides count elements. The two may not overlap.
AOTIP_CORE void strided_copy_raw(void* dst, const int64_t* dst_strides, const void* src,
                                 const int64_t* src_strides, int64_t ndim, const int64_t* sizes,
                                 size_t itemsize) noexcept;

}  // namespace aoti_plugins
