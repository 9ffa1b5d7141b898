#include "cuda/ops/fused_linear.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/one_row.h"
#include "ops/operand.h"

namespace aoti_plugins::cuda {
namespace {

constexpr unsigned int kNormThreads = 256;

int64_t columns_of(const SmallWeight& weight) {
  return weight.codes->size(0) * kWeightTileRows;
}

Status check_vector(const Tensor* vector, const char* name, const Tensor& x, int64_t size) {
  AOTIP_CHECK(vector == nullptr ||
                  (vector->dtype() == x.dtype() && vector->device() == x.device() &&
                   vector->ndim() == 1 && vector->size(0) == size && vector->is_contiguous()),
              "the %s is not [%lld] of %s on the same GPU", name, static_cast<long long>(size),
              dtype_name(x.dtype()));
  return Status::kOk;
}

Status check(const Tensor& x, const FusedLinear& linear) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(x, "x", kCuda));
  AOTIP_CHECK(x.dtype() == kFloat16 || x.dtype() == kBFloat16,
              "x is %s, expected float16 or bfloat16", dtype_name(x.dtype()));
  AOTIP_CHECK(x.ndim() >= 1, "x has no dims");
  const int64_t k = x.size(x.ndim() - 1);
  AOTIP_CHECK(k > 0 && k % 8 == 0, "rows of %lld elements, expected a multiple of 8",
              static_cast<long long>(k));
  AOTIP_RETURN_IF_FAILED(check_small_weight(x, linear.weight, k));
  const int64_t n = columns_of(linear.weight);
  AOTIP_CHECK(linear.gate >= kNoGate && linear.gate <= kGeluTanhGate, "no gate has number %lld",
              static_cast<long long>(linear.gate));
  AOTIP_CHECK(linear.gate == kNoGate || n % (2 * kWeightTileRows) == 0,
              "a gate of %lld columns, expected a multiple of %d", static_cast<long long>(n),
              2 * kWeightTileRows);
  AOTIP_RETURN_IF_FAILED(check_vector(linear.bias, "bias", x, n));
  AOTIP_RETURN_IF_FAILED(check_vector(linear.norm, "norm", x, k));
  AOTIP_CHECK(linear.norm == nullptr || is_aligned(*linear.norm), "the norm is not aligned");
  return Status::kOk;
}

Status call_one_row(const Tensor& x, const FusedLinear& linear, const Tensor* residual,
                    Tensor& out) {
  const SmallWeight& weight = linear.weight;
  OneRowProduct product{};
  static_cast<SmallWeightProduct&>(product) = product_of(weight, x.size(1));
  product.x = x.data();
  product.m = 1;
  product.bias = linear.bias != nullptr ? linear.bias->data() : nullptr;
  product.norm = linear.norm != nullptr ? linear.norm->data() : nullptr;
  product.residual = residual != nullptr ? residual->data() : nullptr;
  product.epsilon = static_cast<float>(linear.epsilon);
  product.gate = static_cast<int32_t>(linear.gate);
  product.out = out.data();
  return one_row(
      x.device().index,
      {weight.bits, kind_of_halves(x), parts_of_group(weight.bits, weight.group_size), true},
      product);
}

Status norm_of_rows(const Tensor& x, const FusedLinear& linear, OwnedTensor* ret) {
  OwnedTensor out(Tensor::empty(2, x.sizes(), x.dtype(), x.device()));
  if (out == nullptr) {
    return Status::kFailed;
  }
  AOTIP_CHECK(x.size(0) <= std::numeric_limits<int32_t>::max(), "too many rows");
  NormOfRows rows{x.data(), linear.norm->data(), out->data(), x.size(1),
                  static_cast<float>(linear.epsilon)};
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_norm_of_rows_%s", kind_of_halves(x));
  void* arguments[] = {&rows};
  AOTIP_RETURN_IF_FAILED(launch_exactly(
      x.device().index, name, static_cast<unsigned int>(x.size(0)), kNormThreads, arguments));
  *ret = std::move(out);
  return Status::kOk;
}

Status end_of_rows(const Tensor& product, const FusedLinear& linear, const Tensor* residual,
                   Tensor& out) {
  EndOfRows rows{product.data(), residual != nullptr ? residual->data() : nullptr,
                 out.data(),     out.size(1),
                 out.numel(),    static_cast<int32_t>(linear.gate)};
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_end_of_rows_%s", kind_of_halves(product));
  void* arguments[] = {&rows};
  return launch_elements(product.device().index, name, rows.numel, arguments);
}

Status call_rows(const Tensor& x, const FusedLinear& linear, const Tensor* residual, Tensor& out) {
  OwnedTensor normed;
  if (linear.norm != nullptr) {
    AOTIP_RETURN_IF_FAILED(norm_of_rows(x, linear, &normed));
  }
  const Tensor& rows = normed != nullptr ? *normed : x;
  if (linear.gate == kNoGate && residual == nullptr) {
    return small_weight_product(rows, linear.weight, linear.bias, out);
  }
  const int64_t sizes[] = {x.size(0), columns_of(linear.weight)};
  const OwnedTensor product(Tensor::empty(2, sizes, x.dtype(), x.device()));
  if (product == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(small_weight_product(rows, linear.weight, linear.bias, *product));
  return end_of_rows(*product, linear, residual, out);
}

}  // namespace

Status fused_linear(const Tensor& x, const FusedLinear& linear, Tensor** ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check(x, linear));
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(x.device().index));
  const int64_t k = x.size(x.ndim() - 1);
  const int64_t m = x.numel() / k;
  const int64_t columns = columns_of(linear.weight) / (linear.gate != kNoGate ? 2 : 1);
  int64_t sizes[Tensor::kMaxDims];
  std::copy_n(x.sizes(), x.ndim(), sizes);
  sizes[x.ndim() - 1] = columns;
  OwnedTensor out(Tensor::empty(x.ndim(), sizes, x.dtype(), x.device()));
  if (out == nullptr) {
    return Status::kFailed;
  }
  const Tensor* added = linear.residual;
  AOTIP_CHECK(added == nullptr || (added->dtype() == x.dtype() && added->device() == x.device() &&
                                   added->ndim() == x.ndim() &&
                                   std::equal(sizes, sizes + x.ndim(), added->sizes())),
              "the residual is not as the result, on the same GPU");
  if (out->numel() > 0) {
    OwnedTensor rows;
    AOTIP_RETURN_IF_FAILED(as_aligned_rows(x, m, k, &rows));
    OwnedTensor residual;
    if (added != nullptr) {
      AOTIP_RETURN_IF_FAILED(as_aligned_rows(*added, m, columns, &residual));
    }
    const int64_t out_sizes[] = {m, columns};
    const int64_t out_strides[] = {columns, 1};
    const OwnedTensor matrix(out->view(2, out_sizes, out_strides, 0, out->dtype()));
    if (matrix == nullptr) {
      return Status::kFailed;
    }
    AOTIP_RETURN_IF_FAILED((m == 1 && fits_one_row(k) ? call_one_row : call_rows)(
        *rows, linear, residual.get(), *matrix));
  }
  *ret = out.release();
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
