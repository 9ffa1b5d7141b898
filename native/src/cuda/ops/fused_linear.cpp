#include "cuda/ops/fused_linear.h"

#include "cuda/ops/one_row.h"

namespace aoti_plugins::cuda {
namespace {

int64_t columns_of(const SmallWeight& weight) {
  return weight.codes->size(0) * kWeightTileRows;
}

Status call_one_row(const Tensor& x, const FusedLinear& linear, const Tensor* residual,
                    Tensor& out) {
  const SmallWeight& weight = linear.weight;
  OneRowProduct product{};
  static_cast<SmallWeightProduct&>(product) = product_of(weight, x, x.size(1));
  product.x = x.data();
  product.m = 1;
  set_around(linear.around, residual, product);
  product.out = out.data();
  return one_row(x.device().index,
                 {weight.bits, kind_of_halves(x), parts_of_group(weight.bits, weight.group_size),
                  is_constant(linear.around)},
                 product);
}

Status multiply(const Tensor& rows, const void* product, Tensor& out) {
  const auto& linear = *static_cast<const FusedLinear*>(product);
  return small_weight_product(rows, linear.weight, linear.around.bias, {}, out);
}

Status compute(const Tensor& x, const void* product, const Tensor* residual, Tensor& out) {
  const auto& [weight, around] = *static_cast<const FusedLinear*>(product);
  if (x.size(0) == 1 && fits_one_row(x.size(1))) {
    return call_one_row(x, {weight, around}, residual, out);
  }
  OwnedTensor normed;
  AOTIP_RETURN_IF_FAILED(norm_of_rows(x, around, &normed));
  const Tensor& rows = normed != nullptr ? *normed : x;
  return ends_products(rows, weight, around.bias)
             ? small_weight_product(rows, weight, around.bias, {residual, around.gate}, out)
             : product_before_end(rows, around, columns_of(weight), multiply, product, residual,
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
