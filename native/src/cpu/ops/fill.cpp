// Fills a tensor with one number.

#include "cpu/ops/operators.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {

Status Operators::fill(Tensor& tensor, const void* element) {
  if (tensor.numel() == 0) {
    return Status::kOk;
  }
  const int64_t zeros[Tensor::kMaxDims] = {};
  strided_copy_raw(tensor.data(), tensor.strides(), element, zeros, tensor.ndim(), tensor.sizes(),
                   tensor.itemsize());
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
