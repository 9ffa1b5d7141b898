#include "cuda/ops/row_linear.h"

#include <limits>

#include "cuda/driver/gpu.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/matmul.h"
#include "cuda/ops/one_row.h"
#include "cuda/ops/small_weights.h"
#include "cuda/ops/streamed_row.h"
#include "ops/operand.h"

namespace aoti_plugins::cuda {
namespace {

int64_t columns_of(const RowLinear& linear) {
  return linear.weight->size(0) * (linear.gated_weight != nullptr ? 2 : 1);
}

Status check_weight(const Tensor& x, const Tensor& weight, const char* name) {
  const int64_t k = x.size(x.ndim() - 1);
  AOTIP_CHECK(weight.dtype() == x.dtype() && weight.ndim() == 2 && weight.size(1) == k &&
                  weight.is_contiguous(),
              "the %s is not [n, %lld] of %s without gaps", name, static_cast<long long>(k),
              dtype_name(x.dtype()));
  AOTIP_CHECK(weight.size(0) <= std::numeric_limits<int32_t>::max() / 2 &&
                  k <= std::numeric_limits<int32_t>::max() / 2,
              "the %s is too large", name);
  return ops::check_beside(weight, name, x);
}

Status check(const Tensor& x, const RowLinear& linear) {
  AOTIP_RETURN_IF_FAILED(check_rows_of_halves(x));
  AOTIP_RETURN_IF_FAILED(check_weight(x, *linear.weight, "weight"));
  if (linear.gated_weight != nullptr) {
    AOTIP_RETURN_IF_FAILED(check_weight(x, *linear.gated_weight, "gated weight"));
    AOTIP_CHECK(linear.around.gate != kNoGate, "a gated weight without a gate");
    AOTIP_CHECK(linear.gated_weight->size(0) == linear.weight->size(0),
                "the two weights of a gate have %lld and %lld rows",
                static_cast<long long>(linear.weight->size(0)),
                static_cast<long long>(linear.gated_weight->size(0)));
    AOTIP_CHECK(linear.around.bias == nullptr, "a bias with the two weights of a gate");
  }
  return check_around(x, linear.around, columns_of(linear));
}

OneRowProduct one_row_of(const Tensor& x, const RowLinear& linear, const Tensor* residual,
                         Tensor& out) {
  OneRowProduct product{};
  product.x = x.data();
  product.m = 1;
  product.n = static_cast<int32_t>(columns_of(linear));
  product.k = static_cast<int32_t>(x.size(1));
  product.weight = linear.weight->data();
  product.gated_weight = linear.gated_weight != nullptr ? linear.gated_weight->data() : nullptr;
  if (linear.around.gate != kNoGate && linear.gated_weight == nullptr) {
    product.gated_weight = static_cast<const char*>(product.weight) +
                           int64_t{product.n} / 2 * product.k * linear.weight->itemsize();
  }
  set_around(linear.around, residual, product);
  product.out = out.data();
  return product;
}

/// out [m, rows of the weight] = x times the transpose of a weight.
Status multiply(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& out) {
  const int64_t k = x.size(1);
  const int64_t sizes[] = {k, out.size(1)};
  const int64_t strides[] = {1, k};
  const OwnedTensor matrix(weight.view(2, sizes, strides, weight.storage_offset(), weight.dtype()));
  if (matrix == nullptr) {
    return Status::kFailed;
  }
  return matmul(out, bias, x, *matrix, bias != nullptr ? 1.0 : 0.0, 1.0);
}

/// Both halves of a gate's columns.
Status multiply_halves(const Tensor& x, const RowLinear& linear, Tensor& out) {
  const int64_t n = out.size(1);
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t sizes[] = {x.size(0), n / 2};
    const int64_t strides[] = {n, 1};
    const OwnedTensor columns(out.view(2, sizes, strides, half * (n / 2), out.dtype()));
    if (columns == nullptr) {
      return Status::kFailed;
    }
    const Tensor& weight = half == 0 ? *linear.weight : *linear.gated_weight;
    AOTIP_RETURN_IF_FAILED(multiply(x, weight, nullptr, *columns));
  }
  return Status::kOk;
}

Status call_rows(const Tensor& x, const RowLinear& linear, const Tensor* residual, Tensor& out) {
  const Around& around = linear.around;
  OwnedTensor normed;
  if (around.norm != nullptr) {
    AOTIP_RETURN_IF_FAILED(norm_of_rows(x, around, &normed));
  }
  const Tensor& rows = normed != nullptr ? *normed : x;
  if (around.gate == kNoGate && residual == nullptr) {
    return multiply(rows, *linear.weight, around.bias, out);
  }
  const int64_t sizes[] = {x.size(0), columns_of(linear)};
  const OwnedTensor product(Tensor::empty(2, sizes, x.dtype(), x.device()));
  if (product == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(linear.gated_weight != nullptr
                             ? multiply_halves(rows, linear, *product)
                             : multiply(rows, *linear.weight, around.bias, *product));
  return end_of_rows(*product, around, residual, out);
}

Status compute(const Tensor& rows, const void* given, const Tensor* residual, Tensor& out) {
  const auto& linear = *static_cast<const RowLinear*>(given);
  const Gpu* gpu = find_gpu(rows.device().index);
  if (gpu == nullptr) {
    return Status::kFailed;
  }
  // A norm's factors may be too large for float16 before the row is divided.
  const bool is_exact = linear.around.norm == nullptr || rows.dtype() == kBFloat16;
  OneRowProduct product = one_row_of(rows, linear, residual, out);
  if (rows.size(0) == 1 && is_exact && is_aligned(product.weight) &&
      is_aligned(product.gated_weight)) {
    if (const std::optional<StreamedShape> shape = streamed_halves_shape(*gpu, product)) {
      const bool is_constant = linear.weight->is_borrowed() && (linear.gated_weight == nullptr ||
                                                                linear.gated_weight->is_borrowed());
      return streamed_halves(*gpu, kind_of_halves(rows), is_constant, *shape, product);
    }
  }
  return call_rows(rows, linear, residual, out);
}

}  // namespace

Status row_linear(const Tensor& x, const RowLinear& linear, Tensor** ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check(x, linear));
  return product_of_rows(x, linear.around, columns_of(linear), compute, &linear, ret);
}

}  // namespace aoti_plugins::cuda
