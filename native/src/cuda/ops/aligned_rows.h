#pragma once

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// Whether kernels may read 16 bytes at once there.
inline bool is_aligned(const void* ptr) {
  return reinterpret_cast<uintptr_t>(ptr) % 16 == 0;
}

/// Whether a tensor begins where kernels may read 16 bytes at once.
bool is_aligned(const Tensor& tensor);

/// A tensor as [rows, columns] without gaps, aligned: itself, or a copy of it on its GPU.
Status as_aligned_rows(const Tensor& from, int64_t rows, int64_t columns, OwnedTensor* ret);

}  // namespace aoti_plugins::cuda
