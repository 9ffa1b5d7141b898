#include "cuda/ops/around_products.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/one_row.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/small_weights.h"
#include "ops/operand.h"

namespace aoti_plugins::cuda {
namespace {

constexpr unsigned int kNormThreads = 256;

Status check_vector(const Tensor* vector, const char* name, const Tensor& x, int64_t size) {
  AOTIP_CHECK(vector == nullptr ||
                  (vector->dtype() == x.dtype() && vector->device() == x.device() &&
                   vector->ndim() == 1 && vector->size(0) == size && vector->is_contiguous()),
              "the %s is not [%lld] of %s on the same GPU", name, static_cast<long long>(size),
              dtype_name(x.dtype()));
  return Status::kOk;
}

/// What becomes of a product [m, n] behind it: gate and residual.
Status end_of_rows(const Tensor& product, const Around& around, const Tensor* residual,
                   Tensor& out) {
  EndOfRows rows{product.data(), residual != nullptr ? residual->data() : nullptr,
                 out.data(),     out.size(1),
                 out.numel(),    static_cast<int32_t>(around.gate)};
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_end_of_rows_%s", kind_of_halves(product));
  void* arguments[] = {&rows};
  return launch_elements(product.device().index, name, rows.numel, arguments);
}

}  // namespace

Status check_rows_of_halves(const Tensor& x) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(x, "x", kCuda));
  AOTIP_CHECK(x.dtype() == kFloat16 || x.dtype() == kBFloat16,
              "x is %s, expected float16 or bfloat16", dtype_name(x.dtype()));
  AOTIP_CHECK(x.ndim() >= 1, "x has no dims");
  const int64_t k = x.size(x.ndim() - 1);
  AOTIP_CHECK(k > 0 && k % 8 == 0, "rows of %lld elements, expected a multiple of 8",
              static_cast<long long>(k));
  return Status::kOk;
}

Status check_around(const Tensor& x, const Around& around, int64_t n) {
  AOTIP_CHECK(around.gate >= kNoGate && around.gate <= kGeluTanhGate, "no gate has number %lld",
              static_cast<long long>(around.gate));
  AOTIP_CHECK(around.gate == kNoGate || n % (2 * kWeightTileRows) == 0,
              "a gate of %lld columns, expected a multiple of %d", static_cast<long long>(n),
              2 * kWeightTileRows);
  AOTIP_RETURN_IF_FAILED(check_vector(around.bias, "bias", x, n));
  AOTIP_RETURN_IF_FAILED(check_vector(around.norm, "norm", x, x.size(x.ndim() - 1)));
  AOTIP_CHECK(around.norm == nullptr || is_aligned(*around.norm), "the norm is not aligned");
  return Status::kOk;
}

Status norm_of_rows(const Tensor& x, const Around& around, OwnedTensor* ret) {
  if (around.norm == nullptr) {
    return Status::kOk;
  }
  OwnedTensor out(Tensor::empty(2, x.sizes(), x.dtype(), x.device()));
  AOTIP_RETURN_IF_NULL(out);
  AOTIP_CHECK(x.size(0) <= std::numeric_limits<int32_t>::max(), "too many rows");
  NormOfRows rows{x.data(), around.norm->data(), out->data(), x.size(1),
                  static_cast<float>(around.epsilon)};
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_norm_of_rows_%s", kind_of_halves(x));
  void* arguments[] = {&rows};
  AOTIP_RETURN_IF_FAILED(launch_exactly(
      x.device().index, name, static_cast<unsigned int>(x.size(0)), kNormThreads, arguments));
  *ret = std::move(out);
  return Status::kOk;
}

Status add_residual(const Tensor& residual, Tensor& out) {
  return end_of_rows(out, {}, &residual, out);
}

Status gate_rows(const Tensor& products, int64_t gate, Tensor& out) {
  return end_of_rows(products, {nullptr, nullptr, nullptr, 0.0, gate}, nullptr, out);
}

bool is_constant(const Around& around) {
  return (around.bias == nullptr || around.bias->is_borrowed()) &&
         (around.norm == nullptr || around.norm->is_borrowed());
}

Status product_between(const Tensor& x, const Around& around, int64_t n, MultiplyRows multiply,
                       const void* product, const Tensor* residual, Tensor& out) {
  OwnedTensor normed;
  AOTIP_RETURN_IF_FAILED(norm_of_rows(x, around, &normed));
  return product_before_end(normed != nullptr ? *normed : x, around, n, multiply, product, residual,
                            out);
}

Status product_before_end(const Tensor& rows, const Around& around, int64_t n,
                          MultiplyRows multiply, const void* product, const Tensor* residual,
                          Tensor& out) {
  if (around.gate == kNoGate && residual == nullptr) {
    return multiply(rows, product, out);
  }
  const int64_t sizes[] = {rows.size(0), n};
  const OwnedTensor columns(Tensor::empty(2, sizes, rows.dtype(), rows.device()));
  AOTIP_RETURN_IF_NULL(columns);
  AOTIP_RETURN_IF_FAILED(multiply(rows, product, *columns));
  return end_of_rows(*columns, around, residual, out);
}

Status product_of_rows(const Tensor& x, const Around& around, int64_t n, ProductOfRows compute,
                       const void* product, AtenTensorHandle* ret) {
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(x.device().index));
  const int64_t k = x.size(x.ndim() - 1);
  const int64_t m = x.numel() / k;
  const int64_t columns = n / (around.gate != kNoGate ? 2 : 1);
  int64_t sizes[Tensor::kMaxDims];
  std::copy_n(x.sizes(), x.ndim(), sizes);
  sizes[x.ndim() - 1] = columns;
  OwnedTensor out(Tensor::empty(x.ndim(), sizes, x.dtype(), x.device()));
  AOTIP_RETURN_IF_NULL(out);
  const Tensor* added = around.residual;
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
    AOTIP_RETURN_IF_NULL(matrix);
    AOTIP_RETURN_IF_FAILED(compute(*rows, product, residual.get(), *matrix));
  }
  return give(out.release(), ret);
}

}  // namespace aoti_plugins::cuda
