#include "cuda/ops/aligned_rows.h"

#include "cuda/driver/cuda_device.h"

namespace aoti_plugins::cuda {

bool is_aligned(const Tensor& tensor) {
  return is_aligned(tensor.data());
}

Status as_aligned_rows(const Tensor& from, int64_t rows, int64_t columns, OwnedTensor* ret) {
  const int64_t sizes[] = {rows, columns};
  const int64_t strides[] = {columns, 1};
  if (from.is_contiguous() && is_aligned(from)) {
    ret->reset(from.view(2, sizes, strides, from.storage_offset(), from.dtype()));
    return *ret != nullptr ? Status::kOk : Status::kFailed;
  }
  const OwnedTensor copy = row_major_copy(from);
  AOTIP_RETURN_IF_NULL(copy);
  ret->reset(copy->view(2, sizes, strides, 0, from.dtype()));
  return *ret != nullptr ? Status::kOk : Status::kFailed;
}

}  // namespace aoti_plugins::cuda
