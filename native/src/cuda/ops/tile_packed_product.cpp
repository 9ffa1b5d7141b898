#include "cuda/ops/tile_packed_product.h"

#include <limits>

#include "cuda/driver/gpu.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/one_row.h"
#include "cuda/ops/small_weights.h"
#include "ops/operand.h"

namespace aoti_plugins::cuda {
namespace {

constexpr int64_t kBits = 4;
constexpr int64_t kLanes = 32;
constexpr int64_t kWordsOfLane = 4;

Status check_codes(const Tensor& x, const Tensor& codes) {
  const int64_t k = x.size(1);
  AOTIP_CHECK(codes.dtype() == kInt32 && codes.ndim() == 4 && codes.size(2) == kLanes &&
                  codes.is_contiguous() && is_aligned(codes),
              "mat2 is not [n / 8, k / 128, 32, 4] of int32 without gaps");
  AOTIP_CHECK(codes.size(3) == kWordsOfLane,
              "mat2 has %lld words for each lane, expected 4: weights that were packed with "
              "innerKTiles 8, as torchao does",
              static_cast<long long>(codes.size(3)));
  AOTIP_CHECK(codes.size(1) * kWeightTileDepth4 == k,
              "mat2 is for rows of %lld elements, self has rows of %lld",
              static_cast<long long>(codes.size(1) * kWeightTileDepth4), static_cast<long long>(k));
  AOTIP_CHECK(codes.size(0) <= std::numeric_limits<int32_t>::max() / (2 * kWeightTileRows) &&
                  k <= std::numeric_limits<int32_t>::max() / 2,
              "the weight is too large");
  return ops::check_beside(codes, "mat2", x);
}

Status check(const Tensor& x, const TilePackedWeight& weight) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(x, "self", kCuda));
  AOTIP_CHECK(x.dtype() == kBFloat16, "self is %s, expected bfloat16", dtype_name(x.dtype()));
  AOTIP_CHECK(x.ndim() == 2 && x.size(1) > 0, "self is not [m, k]");
  AOTIP_RETURN_IF_FAILED(check_codes(x, *weight.codes));
  const int64_t g = weight.group_size;
  AOTIP_CHECK((g == 32 || g == 64 || g == 128 || g == 256) && x.size(1) % g == 0,
              "groups of %lld weights, expected 32, 64, 128 or 256, which divides k",
              static_cast<long long>(g));
  const Tensor& scales = *weight.scales_and_zeros;
  const int64_t n = weight.codes->size(0) * kWeightTileRows;
  AOTIP_CHECK(scales.dtype() == kBFloat16, "scales and zeros are %s, expected bfloat16",
              dtype_name(scales.dtype()));
  AOTIP_CHECK(scales.ndim() == 3 && scales.size(0) == x.size(1) / g && scales.size(1) == n &&
                  scales.size(2) == 2 && scales.is_contiguous(),
              "scales and zeros do not have the sizes [%lld, %lld, 2] without gaps",
              static_cast<long long>(x.size(1) / g), static_cast<long long>(n));
  AOTIP_CHECK(scales.numel() <= std::numeric_limits<int32_t>::max(),
              "the weight has too many groups");
  return ops::check_beside(scales, "the tensor of scales and zeros", x);
}

SmallWeightProduct product_of(const TilePackedWeight& weight, int64_t k) {
  const auto* scales = static_cast<const uint16_t*>(weight.scales_and_zeros->data());
  SmallWeightProduct product{};
  product.weight = weight.codes->data();
  product.scale = scales;
  product.zero = scales + 1;
  product.n = static_cast<int32_t>(weight.codes->size(0) * kWeightTileRows);
  product.k = static_cast<int32_t>(k);
  product.scale_tile_step = 2 * kWeightTileRows;
  product.scale_group_step = 2 * product.n;
  product.scale_row_step = 2;
  product.group_shift = group_shift_of(weight.group_size, k);
  product.zero_kind = kAddedZero;
  product.is_tile_packed = 1;
  return product;
}

Status multiply(const Tensor& rows, const TilePackedWeight& weight, Tensor& out) {
  const int32_t parts = parts_of_group(kBits, weight.group_size);
  const bool is_constant = weight.codes->is_borrowed() && weight.scales_and_zeros->is_borrowed();
  SmallWeightProduct given = product_of(weight, rows.size(1));
  if (rows.size(0) == 1 && fits_one_row(given.k)) {
    OneRowProduct product{};
    static_cast<SmallWeightProduct&>(product) = given;
    product.x = rows.data();
    product.m = 1;
    product.out = out.data();
    return one_row(rows.device().index, {kBits, kind_of_halves(rows), parts, is_constant}, product);
  }
  return small_weight_product(rows, {kBits, parts, is_constant}, given, nullptr, out);
}

}  // namespace

Status tile_packed_product(const Tensor& x, const TilePackedWeight& weight,
                           AtenTensorHandle* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check(x, weight));
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(x.device().index));
  const int64_t sizes[] = {x.size(0), weight.codes->size(0) * kWeightTileRows};
  OwnedTensor out(Tensor::empty(2, sizes, x.dtype(), x.device()));
  AOTIP_RETURN_IF_NULL(out);
  if (out->numel() > 0) {
    OwnedTensor rows;
    AOTIP_RETURN_IF_FAILED(as_aligned_rows(x, x.size(0), x.size(1), &rows));
    AOTIP_RETURN_IF_FAILED(multiply(*rows, weight, *out));
  }
  return give(out.release(), ret);
}

}  // namespace aoti_plugins::cuda
