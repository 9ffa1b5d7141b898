#pragma once

#include <aoti_plugins/shim.h>

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// A weight [n, k] of 4 bits as PyTorch packs it for tensor cores: (code - 8) * scale + zero.
struct TilePackedWeight {
  const Tensor* codes;             ///< [n / 8, k / 128, 32, 4] of int32, eight codes each
  const Tensor* scales_and_zeros;  ///< [k / group_size, n, 2] as x
  int64_t group_size;              ///< 32, 64, 128 or 256
};

/// A new tensor [m, n]: x [m, k], bfloat16 on a GPU, of any strides, times the weight's transpose.
/// The weight is read as it lies; one row is one kernel, as are up to 16.
Status tile_packed_product(const Tensor& x, const TilePackedWeight& weight,
                           AtenTensorHandle* ret) noexcept;

}  // namespace aoti_plugins::cuda
