#include "cuda/ops/linear_all_reduce.h"

#include <string>

#include "cuda/ops/all_reduce.h"
#include "cuda/ops/around_products.h"
#include "cuda/ops/row_linear.h"
#include "cuda/ranks/sends_ahead.h"

namespace aoti_plugins::cuda {
namespace {

// cuBLASLt's usual tiles on large GPUs; each of their waves takes about as long.
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 256;

struct ReducedLinear {
  RowLinear linear;
  ranks::Group group;
  ranks::Reduction reduction;
};

int64_t waves_of(int64_t m, int64_t n, int64_t multiprocessors) noexcept {
  const int64_t tiles = ((m + kTileRows - 1) / kTileRows) * ((n + kTileColumns - 1) / kTileColumns);
  return (tiles + multiprocessors - 1) / multiprocessors;
}

/// Rows of a matrix without gaps.
OwnedTensor rows_of(const Tensor& matrix, int64_t first, int64_t count) {
  const int64_t columns = matrix.size(1);
  const int64_t sizes[] = {count, columns};
  const int64_t strides[] = {columns, 1};
  return OwnedTensor(
      matrix.view(2, sizes, strides, matrix.storage_offset() + first * columns, matrix.dtype()));
}

Status multiply_part(const Tensor& rows, const RowLinear& linear, int64_t first, int64_t count,
                     Tensor& out) {
  const OwnedTensor part = rows_of(rows, first, count);
  const OwnedTensor result = rows_of(out, first, count);
  return part != nullptr && result != nullptr ? row_linear_into(*part, linear, nullptr, *result)
                                              : Status::kFailed;
}

Status compute(const Tensor& rows, const void* given, const Tensor* residual, Tensor& out) {
  const auto& product = *static_cast<const ReducedLinear*>(given);
  const int64_t m = rows.size(0);
  int64_t multiprocessors = 0;
  AOTIP_RETURN_IF_FAILED(may_send_ahead(product.group, out, &multiprocessors));
  const int64_t first = multiprocessors > 0 ? rows_ahead(m, out.size(1), multiprocessors) : 0;
  SentAhead ahead;
  if (first > 0) {
    AOTIP_RETURN_IF_FAILED(multiply_part(rows, product.linear, 0, first, out));
    const auto row_nbytes = static_cast<int64_t>(out.itemsize()) * out.size(1);
    AOTIP_RETURN_IF_FAILED(send_ahead(product.group, out, first * row_nbytes, &ahead));
  }
  const Status rest = multiply_part(rows, product.linear, first, m - first, out);
  if (rest != Status::kOk && ahead.nbytes > 0) {
    // The copy reads memory that is given back now; the first failure is what counts.
    const std::string why = last_failure();
    (void)wait_for_copies_beside(rows.device().index);
    return fail("%s", why.c_str());
  }
  AOTIP_RETURN_IF_FAILED(rest);
  if (product.group.size > 1) {
    return all_reduce(product.group, product.reduction, out, ahead, residual, out);
  }
  return residual != nullptr ? add_residual(*residual, out) : Status::kOk;
}

}  // namespace

int64_t rows_ahead(int64_t m, int64_t n, int64_t multiprocessors) noexcept {
  const int64_t waves = waves_of(m, n, multiprocessors);
  for (int64_t first = m / 2 / kTileRows * kTileRows; first >= m / 4; first -= kTileRows) {
    if (first > 0 &&
        waves_of(first, n, multiprocessors) + waves_of(m - first, n, multiprocessors) <= waves) {
      return first;
    }
  }
  return 0;
}

Status linear_all_reduce(const Tensor& x, const Tensor& weight, const Tensor* residual,
                         int64_t reduction, const ranks::Group& group,
                         AtenTensorHandle* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(group.check());
  AOTIP_RETURN_IF_FAILED(ranks::check_reduction(reduction, x.dtype()));
  ReducedLinear product{{{&weight}, {}}, group, static_cast<ranks::Reduction>(reduction)};
  product.linear.around.residual = residual;
  AOTIP_RETURN_IF_FAILED(check_row_linear(x, product.linear));
  return product_of_rows(x, product.linear.around, weight.size(0), compute, &product, ret);
}

}  // namespace aoti_plugins::cuda
