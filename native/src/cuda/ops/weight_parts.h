#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/ops/matmul.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// Elements of a part of the weight that becomes a matrix: it is read again from the GPU's cache.
inline constexpr int64_t kPartElements = int64_t{4} << 20;

/// out [m, n] = x [m, k] times the transpose of a weight [n, k] + bias [n], unless that is null:
/// part by part the weight becomes a matrix, for cuBLASLt.
///
/// @param unpack `Status(void* to, int64_t first, int64_t rows)`, which launches what writes rows
/// of the weight from `first` on, a multiple of 8, as elements of x's dtype without gaps.
template <typename Unpack>
Status multiply_by_parts(const Tensor& x, int64_t n, const Tensor* bias, Tensor& out,
                         const Unpack& unpack) {
  const int64_t m = x.size(0);
  const int64_t k = x.size(1);
  const int64_t most = std::min(std::max(kPartElements / k / 8 * 8, int64_t{8}), n);
  const int64_t part_sizes[] = {most, k};
  const OwnedTensor part(Tensor::empty(2, part_sizes, x.dtype(), x.device()));
  AOTIP_RETURN_IF_NULL(part);
  for (int64_t first = 0; first < n; first += most) {
    const int64_t rows = std::min(most, n - first);
    AOTIP_RETURN_IF_FAILED(unpack(part->data(), first, rows));
    const int64_t matrix_sizes[] = {k, rows};
    const int64_t matrix_strides[] = {1, k};
    const OwnedTensor matrix(part->view(2, matrix_sizes, matrix_strides, 0, x.dtype()));
    const int64_t out_sizes[] = {m, rows};
    const int64_t out_strides[] = {n, 1};
    const OwnedTensor columns(
        out.view(2, out_sizes, out_strides, out.storage_offset() + first, x.dtype()));
    const int64_t one = 1;
    const OwnedTensor added(
        bias != nullptr ? bias->view(1, &rows, &one, bias->storage_offset() + first, x.dtype())
                        : nullptr);
    if (matrix == nullptr || columns == nullptr || (bias != nullptr && added == nullptr)) {
      return Status::kFailed;
    }
    AOTIP_RETURN_IF_FAILED(
        matmul(*columns, added.get(), x, *matrix, bias != nullptr ? 1.0 : 0.0, 1.0));
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
