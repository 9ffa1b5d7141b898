#pragma once

#include <cstddef>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::mps {

/// Whether `copy_on_device()` can copy between two tensors on mps.
bool can_copy_on_device(const Tensor& dst, const Tensor& src) noexcept;

/// Copies elements with a kernel, in the order of the current stream: equal sizes, any strides and
/// dtypes that Metal has.
Status copy_on_device(Tensor& dst, const Tensor& src) noexcept;

/// Sets bytes to zero with a kernel, in the order of the current stream.
Status zero_on_device(void* data, size_t nbytes) noexcept;

/// Writes a copy of at most `kMaxBytes` (encode.h) with a kernel, in the order of the current
/// stream.
Status write_on_device(void* data, const void* bytes, size_t nbytes) noexcept;

}  // namespace aoti_plugins::mps
