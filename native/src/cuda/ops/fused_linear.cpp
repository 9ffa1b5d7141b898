#include "cuda/ops/fused_linear.h"

#include "cuda/driver/gpu.h"
#include "cuda/ops/one_row.h"
#include "cuda/ops/operators.h"
#include "cuda/ops/streamed_row.h"

namespace aoti_plugins::cuda {
namespace {

int64_t columns_of(const SmallWeight& weight) {
  return weight.codes->size(0) * kWeightTileRows;
}

OneRowKind kind_of(const Tensor& x, const FusedLinear& linear) {
  const SmallWeight& weight = linear.weight;
  return {weight.bits, kind_of_halves(x), parts_of_group(weight.bits, weight.group_size),
          is_constant(linear.around) && !weight.is_new};
}

OneRowProduct one_row_of(const Tensor& x, const FusedLinear& linear, const Tensor* residual,
                         Tensor& out) {
  const SmallWeight& weight = linear.weight;
  OneRowProduct product{};
  static_cast<SmallWeightProduct&>(product) = product_of(weight, x, x.size(1));
  product.x = x.data();
  product.m = 1;
  set_around(linear.around, residual, product);
  product.out = out.data();
  return product;
}

/// Scales and zeros as float32.
struct WideGroups {
  OwnedTensor scale;
  OwnedTensor zero;
};

Status widen(const Tensor& groups, OwnedTensor* ret) {
  ret->reset(Tensor::empty(groups.ndim(), groups.sizes(), kFloat32, groups.device()));
  AOTIP_RETURN_IF_NULL(*ret);
  return Operators::copy(**ret, groups);
}

/// The weight with scales that all kernels take, in place of float16.
Status widen(SmallWeight& weight, WideGroups* ret) {
  AOTIP_RETURN_IF_FAILED(widen(*weight.scale, &ret->scale));
  weight.scale = ret->scale.get();
  if (weight.zero != nullptr) {
    AOTIP_RETURN_IF_FAILED(widen(*weight.zero, &ret->zero));
    weight.zero = ret->zero.get();
  }
  weight.is_new = true;
  return Status::kOk;
}

Status multiply(const Tensor& rows, const void* product, Tensor& out) {
  const auto& linear = *static_cast<const FusedLinear*>(product);
  return small_weight_product(rows, linear.weight, linear.around.bias, {}, out);
}

Status compute(const Tensor& x, const void* product, const Tensor* residual, Tensor& out) {
  FusedLinear linear = *static_cast<const FusedLinear*>(product);
  SmallWeight& weight = linear.weight;
  bool is_one = x.size(0) == 1 && fits_one_row(x.size(1));
  WideGroups wide;
  const bool has_half_scale = weight.scale->dtype() == kFloat16 && x.dtype() != kFloat16;
  if (has_half_scale || is_float(weight.zero_kind)) {
    const Gpu* gpu = find_gpu(x.device().index);
    AOTIP_RETURN_IF_NULL(gpu);
    const OneRowProduct row = one_row_of(x, linear, residual, out);
    const bool is_streamed = is_one && streamed_shape(*gpu, kind_of(x, linear), row).has_value();
    if (has_half_scale && !is_streamed) {
      AOTIP_RETURN_IF_FAILED(widen(weight, &wide));
    }
    is_one = is_one && (has_half_scale || is_streamed);  // no other kernel of a row takes floats
  }
  if (is_one) {
    OneRowProduct row = one_row_of(x, linear, residual, out);
    return one_row(x.device().index, kind_of(x, linear), row);
  }
  const Around& around = linear.around;
  OwnedTensor normed;
  AOTIP_RETURN_IF_FAILED(norm_of_rows(x, around, &normed));
  const Tensor& rows = normed != nullptr ? *normed : x;
  return ends_products(rows, weight, around.bias)
             ? small_weight_product(rows, weight, around.bias, {residual, around.gate}, out)
             : product_before_end(rows, around, columns_of(weight), multiply, &linear, residual,
                                  out);
}

}  // namespace

Status fused_linear(const Tensor& x, const FusedLinear& linear, AtenTensorHandle* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check_rows_of_halves(x));
  AOTIP_RETURN_IF_FAILED(check_small_weight(x, linear.weight, x.size(x.ndim() - 1)));
  const int64_t n = columns_of(linear.weight);
  AOTIP_RETURN_IF_FAILED(check_around(x, linear.around, n));
  return product_of_rows(x, linear.around, n, compute, &linear, ret);
}

}  // namespace aoti_plugins::cuda
