#include "cuda/ops/row_linear.h"

#include <algorithm>
#include <iterator>
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

constexpr const char* kNames[kMostWeights] = {"weight", "second weight", "third weight"};

int64_t columns_of(const RowLinear& linear) {
  int64_t columns = 0;
  for (const Tensor* weight : linear.weights) {
    columns += weight != nullptr ? weight->size(0) : 0;
  }
  return columns;
}

Status check_weight(const Tensor& x, const Tensor& weight, const char* name) {
  const int64_t k = x.size(x.ndim() - 1);
  AOTIP_CHECK(weight.dtype() == x.dtype() && weight.ndim() == 2 && weight.size(1) == k &&
                  weight.is_contiguous(),
              "the %s is not [n, %lld] of %s without gaps", name, static_cast<long long>(k),
              dtype_name(x.dtype()));
  AOTIP_CHECK(weight.size(0) <= std::numeric_limits<int32_t>::max() / 4 &&
                  k <= std::numeric_limits<int32_t>::max() / 2,
              "the %s is too large", name);
  return ops::check_beside(weight, name, x);
}

/// Whether kernels may read all weights, 16 bytes at once.
bool are_aligned(const RowLinear& linear) {
  return std::all_of(std::begin(linear.weights), std::end(linear.weights),
                     [](const Tensor* one) { return one == nullptr || is_aligned(*one); });
}

/// Whether no kernel of the program writes what a kernel reads that begins early.
bool are_constant(const RowLinear& linear) {
  return is_constant(linear.around) &&
         std::all_of(std::begin(linear.weights), std::end(linear.weights),
                     [](const Tensor* one) { return one == nullptr || one->is_borrowed(); });
}

OneRowProduct one_row_of(const Tensor& x, const RowLinear& linear, const Tensor* residual,
                         Tensor& out) {
  OneRowProduct product{};
  product.x = x.data();
  product.m = 1;
  product.n = static_cast<int32_t>(columns_of(linear));
  product.k = static_cast<int32_t>(x.size(1));
  product.weight = linear.weights[0]->data();
  int32_t start = static_cast<int32_t>(linear.weights[0]->size(0));
  for (int32_t i = 0; i + 1 < kMostWeights; ++i) {
    const Tensor* const weight = linear.weights[i + 1];
    product.more[i] = weight != nullptr ? weight->data() : nullptr;
    product.starts[i] = start;
    start += weight != nullptr ? static_cast<int32_t>(weight->size(0)) : 0;
  }
  set_around(linear.around, residual, product);
  product.out = out.data();
  return product;
}

/// out [m, columns] = x times the transposes of all weights, plus the bias.
Status multiply(const Tensor& x, const void* product, Tensor& out) {
  const auto& linear = *static_cast<const RowLinear*>(product);
  const Tensor* const bias = linear.around.bias;
  const int64_t k = x.size(1);
  int64_t first = 0;
  for (const Tensor* weight : linear.weights) {
    const int64_t n = weight != nullptr ? weight->size(0) : 0;
    if (n == 0) {
      continue;
    }
    const int64_t sizes[] = {k, n};
    const int64_t strides[] = {1, k};
    const OwnedTensor matrix(
        weight->view(2, sizes, strides, weight->storage_offset(), weight->dtype()));
    const int64_t out_sizes[] = {x.size(0), n};
    const int64_t out_strides[] = {out.size(1), 1};
    const OwnedTensor columns(
        out.view(2, out_sizes, out_strides, out.storage_offset() + first, out.dtype()));
    const int64_t one = 1;
    const OwnedTensor added(
        bias != nullptr ? bias->view(1, &n, &one, bias->storage_offset() + first, bias->dtype())
                        : nullptr);
    if (matrix == nullptr || columns == nullptr || (bias != nullptr && added == nullptr)) {
      return Status::kFailed;
    }
    AOTIP_RETURN_IF_FAILED(
        matmul(*columns, added.get(), x, *matrix, bias != nullptr ? 1.0 : 0.0, 1.0));
    first += n;
  }
  return Status::kOk;
}

Status compute(const Tensor& rows, const void* given, const Tensor* residual, Tensor& out) {
  return row_linear_into(rows, *static_cast<const RowLinear*>(given), residual, out);
}

}  // namespace

Status row_linear_into(const Tensor& rows, const RowLinear& linear, const Tensor* residual,
                       Tensor& out) {
  const Gpu* gpu = find_gpu(rows.device().index);
  AOTIP_RETURN_IF_NULL(gpu);
  // A norm's factors may be too large for float16 before the row is divided.
  const bool is_exact = linear.around.norm == nullptr || rows.dtype() == kBFloat16;
  if (rows.size(0) == 1 && is_exact && are_aligned(linear)) {
    OneRowProduct product = one_row_of(rows, linear, residual, out);
    if (const std::optional<StreamedShape> shape = streamed_halves_shape(*gpu, product)) {
      return streamed_halves(*gpu, kind_of_halves(rows), are_constant(linear), *shape, product);
    }
  }
  return product_between(rows, linear.around, columns_of(linear), multiply, &linear, residual, out);
}

Status check_row_linear(const Tensor& x, const RowLinear& linear) {
  AOTIP_RETURN_IF_FAILED(check_rows_of_halves(x));
  AOTIP_CHECK(linear.weights[1] != nullptr || linear.weights[2] == nullptr,
              "a third weight without a second one");
  for (int32_t i = 0; i < kMostWeights; ++i) {
    if (linear.weights[i] != nullptr) {
      AOTIP_RETURN_IF_FAILED(check_weight(x, *linear.weights[i], kNames[i]));
    }
  }
  return check_around(x, linear.around, columns_of(linear));
}

Status row_linear(const Tensor& x, const RowLinear& linear, AtenTensorHandle* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check_row_linear(x, linear));
  return product_of_rows(x, linear.around, columns_of(linear), compute, &linear, ret);
}

}  // namespace aoti_plugins::cuda
