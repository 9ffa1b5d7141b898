#pragma once

#include <aoti_plugins/shim.h>

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// A weight [n, k] of 4 to 8 bits in planes, as upstream's partitioner stores it;
/// docs/small-weights.md has the forms. All is without gaps, on one GPU.
struct PlainWeight {
  int64_t bits;        ///< 4, 5, 6 or 8
  const Tensor* low;   ///< [n, k / 2] of uint8; of 8 bits [n, k] of int8
  const Tensor* high;  ///< [n, k / 8] of 5 bits, [n, k / 4] of 6; else null
  const Tensor* scale;
  const Tensor* scale_step;  ///< null of 8 bits
  const Tensor* zero;        ///< null of 6 bits
  const Tensor* zero_step;   ///< null of 6 and 8 bits
  int64_t group_size;
};

/// A new tensor [..., n]: x [..., k], bfloat16 on a GPU, of any strides, times the weight's
/// transpose. The weight is read as it lies, once for each four rows up to 16; for more, parts of
/// it become a matrix for cuBLASLt.
Status plain_product(const Tensor& x, const PlainWeight& weight, AtenTensorHandle* ret) noexcept;

}  // namespace aoti_plugins::cuda
