#include "cuda/ops/small_weights.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/one_row.h"
#include "cuda/kernels/small_weights.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/many_rows.h"
#include "cuda/ops/weight_parts.h"

namespace aoti_plugins::cuda {
namespace {

constexpr int64_t kMostFewRows = 16;

/// Warps of a multiprocessor among which a weight is divided.
constexpr int64_t kWarpsOfMultiprocessor = 16;

int64_t groups_of(const SmallWeight& weight, int64_t k) {
  return weight.group_size >= k ? 1 : k / weight.group_size;
}

Status check_group_sizes(const Tensor& groups, const char* name, const Tensor& x, int64_t tiles,
                         int64_t count) {
  AOTIP_CHECK(groups.ndim() == 3 && groups.size(0) == tiles && groups.size(1) == count &&
                  groups.size(2) == kWeightTileRows && groups.is_contiguous(),
              "%s does not have the sizes [%lld, %lld, %d] without gaps", name,
              static_cast<long long>(tiles), static_cast<long long>(count), kWeightTileRows);
  AOTIP_CHECK(groups.device() == x.device(), "%s and x are on different devices", name);
  return Status::kOk;
}

Status check_groups(const Tensor& groups, const char* name, const Tensor& x, int64_t tiles,
                    int64_t count) {
  AOTIP_CHECK(
      groups.dtype() == x.dtype() || groups.dtype() == kFloat32 || groups.dtype() == kFloat16,
      "%s is %s, expected %s, float32 or float16", name, dtype_name(groups.dtype()),
      dtype_name(x.dtype()));
  return check_group_sizes(groups, name, x, tiles, count);
}

/// What is around codes that are floats.
Status check_floats(const Tensor& x, const SmallWeight& weight, int64_t k) {
  const Tensor& scale = *weight.scale;
  const bool is_row = weight.group_size == k;
  AOTIP_CHECK(weight.zero_kind == kFloat || weight.bits == 8, "weights of 4 bits are no E5M2");
  AOTIP_CHECK(x.dtype() == kBFloat16, "x is %s, expected bfloat16 for weights that are floats",
              dtype_name(x.dtype()));
  const int64_t tiles = weight.codes->size(0);
  const int32_t expected = is_row ? kFloat32 : kUInt8;
  AOTIP_CHECK(scale.dtype() == expected, "scale is %s, expected %s", dtype_name(scale.dtype()),
              dtype_name(expected));
  AOTIP_RETURN_IF_FAILED(check_group_sizes(scale, "scale", x, tiles, groups_of(weight, k)));
  AOTIP_CHECK(is_aligned(scale), "scale is not aligned to 16 bytes");
  if (weight.zero != nullptr) {
    AOTIP_CHECK(!is_row && weight.zero->dtype() == kFloat32,
                "factors of rows are float32, and only beside groups");
    AOTIP_RETURN_IF_FAILED(check_group_sizes(*weight.zero, "zero", x, tiles, 1));
  }
  return Status::kOk;
}

}  // namespace

Status check_small_weight(const Tensor& x, const SmallWeight& weight, int64_t k) {
  const Tensor& codes = *weight.codes;
  AOTIP_CHECK(weight.bits == 4 || weight.bits == 8, "weights of %lld bits, expected 4 or 8",
              static_cast<long long>(weight.bits));
  const int64_t depth = tile_depth(weight.bits);
  AOTIP_CHECK(codes.dtype() == kUInt8 && codes.ndim() == 3 &&
                  codes.size(1) == (k + depth - 1) / depth && codes.size(2) == kWeightTileNbytes &&
                  codes.is_contiguous() && is_aligned(codes),
              "the weight is not [n / 8, %lld, 512] of uint8 without gaps",
              static_cast<long long>((k + depth - 1) / depth));
  AOTIP_CHECK(codes.size(0) <= std::numeric_limits<int32_t>::max() / kWeightTileRows &&
                  k <= std::numeric_limits<int32_t>::max() / 2,
              "the weight is too large");
  AOTIP_CHECK(codes.device() == x.device(), "weight and x are on different devices");
  const int64_t g = weight.group_size;
  const bool has_floats = is_float(weight.zero_kind);
  AOTIP_CHECK(has_floats || g == k || (g >= 32 && (g & (g - 1)) == 0 && k % g == 0),
              "groups of %lld weights, expected k or a power of two from 32 on that divides k",
              static_cast<long long>(g));
  AOTIP_CHECK(
      !has_floats ||
          (k % 32 == 0 && (g == group_of_floats(weight.bits) || (g == k && weight.bits == 8))),
      "rows of %lld floats in groups of %lld, expected a multiple of 32 in groups of %d, or "
      "of 8 bits in one",
      static_cast<long long>(k), static_cast<long long>(g), group_of_floats(weight.bits));
  AOTIP_CHECK(has_floats || ((weight.zero == nullptr) == (weight.zero_kind == kNoZero) &&
                             weight.zero_kind >= 0 && weight.zero_kind <= kAddedZero),
              "zeros of kind %lld do not go with the arguments",
              static_cast<long long>(weight.zero_kind));
  const int64_t groups = groups_of(weight, k);
  AOTIP_CHECK(codes.size(0) * groups * kWeightTileRows <= std::numeric_limits<int32_t>::max(),
              "the weight has too many groups");
  if (has_floats) {
    return check_floats(x, weight, k);
  }
  AOTIP_RETURN_IF_FAILED(check_groups(*weight.scale, "scale", x, codes.size(0), groups));
  if (weight.zero != nullptr) {
    AOTIP_RETURN_IF_FAILED(check_groups(*weight.zero, "zero", x, codes.size(0), groups));
    AOTIP_CHECK(weight.zero->dtype() == weight.scale->dtype(), "zero is %s, expected %s as scale",
                dtype_name(weight.zero->dtype()), dtype_name(weight.scale->dtype()));
  }
  return Status::kOk;
}

SmallWeightProduct product_of(const SmallWeight& weight, const Tensor& x, int64_t k) {
  SmallWeightProduct product{};
  product.weight = weight.codes->data();
  product.scale = weight.scale->data();
  product.zero = weight.zero != nullptr ? weight.zero->data() : nullptr;
  product.n = static_cast<int32_t>(weight.codes->size(0) * kWeightTileRows);
  product.k = static_cast<int32_t>(k);
  product.scale_tile_step = static_cast<int32_t>(groups_of(weight, k)) * kWeightTileRows;
  product.scale_group_step = kWeightTileRows;
  product.scale_row_step = 1;
  product.group_shift = group_shift_of(weight.group_size, k);
  const bool has_number = !is_float(weight.zero_kind);  // of any dtype
  product.has_float_scale = has_number && weight.scale->dtype() == kFloat32 ? 1 : 0;
  product.has_half_scale = weight.scale->dtype() == kFloat16 && x.dtype() != kFloat16 ? 1 : 0;
  product.zero_kind = static_cast<int32_t>(weight.zero_kind);
  return product;
}

const char* kind_of_halves(const Tensor& x) {
  return x.dtype() == kFloat16 ? "f16" : "bf16";
}

int32_t parts_of_group(int64_t bits, int64_t group_size) {
  const int64_t most = tile_depth(bits) / 32;
  return static_cast<int32_t>(std::clamp<int64_t>(group_size / 32, 1, most));
}

int32_t group_shift_of(int64_t group_size, int64_t k) {
  int32_t shift = kGroupOfRow;
  if (group_size < k) {
    shift = 0;
    while (int64_t{1} << shift < group_size) {
      ++shift;
    }
  }
  return shift;
}

/// Warps of a block: as many as divide the weight among all multiprocessors. One alone was slower
/// than two for every size (H200).
unsigned int warps_of_block(int64_t blocks, int32_t multiprocessors) {
  unsigned int warps = 2;
  while (warps < kProductWarps && 2 * warps * blocks <= kWarpsOfMultiprocessor * multiprocessors) {
    warps *= 2;
  }
  return warps;
}

namespace {

/// Tiles of a block, and blocks of eight rows of x that it has.
struct FewRowsShape {
  int32_t tiles;
  int32_t x_blocks;
};

/// A weight that would keep only half of the multiprocessors busy is divided among twice as many;
/// the image has such kernels for what is used most.
FewRowsShape few_rows_shape(const Gpu& gpu, const Tensor& x, const SmallWeightProduct& product) {
  if (product.m > 8) {
    return {2, 2};
  }
  const bool is_narrow = product.n / kWeightTileRows <= 2 * gpu.multiprocessors;
  return {is_narrow && x.dtype() == kBFloat16 && product.is_tile_packed == 0 ? 2 : 4, 1};
}

Status few_rows(const Gpu& gpu, const Tensor& x, const SmallWeightKind& kind,
                SmallWeightProduct& product) {
  const FewRowsShape shape = few_rows_shape(gpu, x, product);
  char name[64];
  if (product.is_tile_packed != 0) {
    (void)std::snprintf(name, sizeof(name), "aotip_tile_packed_%d_%d_%d", shape.tiles,
                        shape.x_blocks, kind.parts);
  } else if (is_float(product.zero_kind)) {
    (void)std::snprintf(name, sizeof(name), "aotip_small_floats_%d_bf16_%d_%d",
                        static_cast<int>(kind.bits), shape.tiles, shape.x_blocks);
  } else {
    (void)std::snprintf(name, sizeof(name), "aotip_small_weights_%d_%s_%d_%d_%d",
                        static_cast<int>(kind.bits), kind_of_halves(x), shape.tiles, shape.x_blocks,
                        kind.parts);
  }
  const int32_t rows = shape.tiles * kWeightTileRows;
  const unsigned int blocks = static_cast<unsigned int>((product.n + rows - 1) / rows);
  const unsigned int warps = warps_of_block(blocks, gpu.multiprocessors);
  void* arguments[] = {&product};
  return launch_wide(gpu.index, name, {blocks, warps * 32, 0}, kind.is_constant, arguments);
}

Status by_parts(const Tensor& x, int64_t bits, SmallWeightProduct& product, const Tensor* bias,
                Tensor& out) {
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_unpack_%s_%d_%s",
                      is_float(product.zero_kind) ? "floats" : "weights", static_cast<int>(bits),
                      kind_of_halves(x));
  const int64_t depth = tile_depth(bits);
  const int64_t tiles_along_k = (product.k + depth - 1) / depth;
  return multiply_by_parts(x, product.n, bias, out, [&](void* to, int64_t first, int64_t rows) {
    product.out = to;
    int32_t first_row = static_cast<int32_t>(first);
    void* arguments[] = {&product, &first_row};
    const int64_t blocks = rows / kWeightTileRows * tiles_along_k;
    AOTIP_CHECK(blocks <= std::numeric_limits<int32_t>::max(), "the weight is too large");
    return launch_exactly(x.device().index, name, static_cast<unsigned int>(blocks), 32, arguments);
  });
}

Status small_weight_product(const Tensor& rows, const SmallWeightKind& kind,
                            SmallWeightProduct& product, const Tensor* bias,
                            const EndOfProduct& end, Tensor& out) noexcept {
  const Gpu* gpu = find_gpu(rows.device().index);
  AOTIP_RETURN_IF_NULL(gpu);
  AOTIP_CHECK(rows.size(0) <= std::numeric_limits<int32_t>::max(), "too many rows");
  product.x = rows.data();
  product.x_step = product.k;
  product.m = static_cast<int32_t>(rows.size(0));
  product.bias = bias != nullptr ? bias->data() : nullptr;
  product.out = out.data();
  if (product.m > kMostFewRows && fits_many_rows(*gpu, product)) {
    return many_rows(*gpu, rows, kind.bits, kind.is_constant, product, end);
  }
  AOTIP_CHECK(end.gate == kNoGate && end.residual == nullptr,
              "a gate or a residual behind a product that has none");
  return product.m <= kMostFewRows ? few_rows(*gpu, rows, kind, product)
                                   : by_parts(rows, kind.bits, product, bias, out);
}

}  // namespace

bool ends_products(const Tensor& rows, const SmallWeight& weight, const Tensor* bias) noexcept {
  const Gpu* gpu = find_gpu(rows.device().index);
  SmallWeightProduct product = product_of(weight, rows, rows.size(1));
  product.x = rows.data();
  product.bias = bias != nullptr ? bias->data() : nullptr;
  return gpu != nullptr && rows.size(0) > kMostFewRows && fits_many_rows(*gpu, product);
}

Status small_weight_product(const Tensor& rows, const SmallWeight& weight, const Tensor* bias,
                            const EndOfProduct& end, Tensor& out) noexcept {
  SmallWeightProduct product = product_of(weight, rows, rows.size(1));
  return small_weight_product(
      rows, {weight.bits, parts_of_group(weight.bits, weight.group_size), !weight.is_new}, product,
      bias, end, out);
}

Status small_weight_product(const Tensor& rows, const SmallWeightKind& kind,
                            SmallWeightProduct& product, const Tensor* bias, Tensor& out) noexcept {
  return small_weight_product(rows, kind, product, bias, {}, out);
}

}  // namespace aoti_plugins::cuda
