#include "cuda/ops/small_weights.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/small_weights.h"
#include "cuda/ops/matmul.h"

namespace aoti_plugins::cuda {
namespace {

constexpr int64_t kTileNbytes = 512;
constexpr int64_t kMostFewRows = 16;

/// Elements of a part of the weight that becomes a matrix: it is read again from the GPU's cache.
constexpr int64_t kPartElements = int64_t{4} << 20;

/// Warps of a multiprocessor among which a weight is divided.
constexpr int64_t kWarpsOfMultiprocessor = 16;

struct Destroyer {
  void operator()(Tensor* tensor) const { Tensor::destroy(tensor); }
};
using Owned = std::unique_ptr<Tensor, Destroyer>;

bool is_aligned(const void* ptr, size_t nbytes) {
  return reinterpret_cast<uintptr_t>(ptr) % nbytes == 0;
}

int64_t groups_of(const SmallWeight& weight, int64_t k) {
  return weight.group_size >= k ? 1 : k / weight.group_size;
}

Status check_groups(const Tensor& groups, const char* name, const Tensor& x, int64_t tiles,
                    int64_t count) {
  AOTIP_CHECK(groups.dtype() == x.dtype() || groups.dtype() == kFloat32,
              "%s is %s, expected %s or float32", name, dtype_name(groups.dtype()),
              dtype_name(x.dtype()));
  AOTIP_CHECK(groups.ndim() == 3 && groups.size(0) == tiles && groups.size(1) == count &&
                  groups.size(2) == kWeightTileRows && groups.is_contiguous(),
              "%s does not have the sizes [%lld, %lld, %d] without gaps", name,
              static_cast<long long>(tiles), static_cast<long long>(count), kWeightTileRows);
  AOTIP_CHECK(groups.device() == x.device(), "%s and x are on different devices", name);
  return Status::kOk;
}

}  // namespace

Status check_small_weight(const Tensor& x, const SmallWeight& weight, int64_t k) {
  const Tensor& codes = *weight.codes;
  AOTIP_CHECK(weight.bits == 4 || weight.bits == 8, "weights of %lld bits, expected 4 or 8",
              static_cast<long long>(weight.bits));
  const int64_t depth = weight.bits == 4 ? kWeightTileDepth4 : kWeightTileDepth8;
  AOTIP_CHECK(codes.dtype() == kUInt8 && codes.ndim() == 3 &&
                  codes.size(1) == (k + depth - 1) / depth && codes.size(2) == kTileNbytes &&
                  codes.is_contiguous() && is_aligned(codes.data(), 16),
              "the weight is not [n / 8, %lld, 512] of uint8 without gaps",
              static_cast<long long>((k + depth - 1) / depth));
  AOTIP_CHECK(codes.size(0) <= std::numeric_limits<int32_t>::max() / kWeightTileRows &&
                  k <= std::numeric_limits<int32_t>::max() / 2,
              "the weight is too large");
  AOTIP_CHECK(codes.device() == x.device(), "weight and x are on different devices");
  const int64_t g = weight.group_size;
  AOTIP_CHECK(g == k || (g >= 32 && (g & (g - 1)) == 0 && k % g == 0),
              "groups of %lld weights, expected k or a power of two from 32 on that divides k",
              static_cast<long long>(g));
  AOTIP_CHECK((weight.zero == nullptr) == (weight.zero_kind == kNoZero) && weight.zero_kind >= 0 &&
                  weight.zero_kind <= kAddedZero,
              "zeros of kind %lld do not go with the arguments",
              static_cast<long long>(weight.zero_kind));
  const int64_t groups = groups_of(weight, k);
  AOTIP_CHECK(codes.size(0) * groups * kWeightTileRows <= std::numeric_limits<int32_t>::max(),
              "the weight has too many groups");
  AOTIP_RETURN_IF_FAILED(check_groups(*weight.scale, "scale", x, codes.size(0), groups));
  if (weight.zero != nullptr) {
    AOTIP_RETURN_IF_FAILED(check_groups(*weight.zero, "zero", x, codes.size(0), groups));
    AOTIP_CHECK(weight.zero->dtype() == weight.scale->dtype(), "zero is %s, expected %s as scale",
                dtype_name(weight.zero->dtype()), dtype_name(weight.scale->dtype()));
  }
  return Status::kOk;
}

SmallWeightProduct product_of(const SmallWeight& weight, int64_t k) {
  SmallWeightProduct product{};
  product.weight = weight.codes->data();
  product.scale = weight.scale->data();
  product.zero = weight.zero != nullptr ? weight.zero->data() : nullptr;
  product.n = static_cast<int32_t>(weight.codes->size(0) * kWeightTileRows);
  product.k = static_cast<int32_t>(k);
  product.scale_tile_step = static_cast<int32_t>(groups_of(weight, k)) * kWeightTileRows;
  product.scale_group_step = kWeightTileRows;
  product.scale_row_step = 1;
  product.group_shift = 31;
  if (weight.group_size < k) {
    product.group_shift = 0;
    while (int64_t{1} << product.group_shift < weight.group_size) {
      ++product.group_shift;
    }
  }
  product.has_float_scale = weight.scale->dtype() == kFloat32 ? 1 : 0;
  product.zero_kind = static_cast<int32_t>(weight.zero_kind);
  return product;
}

const char* kind_of_halves(const Tensor& x) {
  return x.dtype() == kFloat16 ? "f16" : "bf16";
}

int32_t parts_of_group(const SmallWeight& weight) {
  const int64_t most = (weight.bits == 4 ? kWeightTileDepth4 : kWeightTileDepth8) / 32;
  return static_cast<int32_t>(std::clamp<int64_t>(weight.group_size / 32, 1, most));
}

namespace {

/// Warps of a block: as many as divide the weight among all multiprocessors. One alone was slower
/// than two for every size (H200).
unsigned int warps_of_block(int64_t blocks, int32_t multiprocessors) {
  unsigned int warps = 2;
  while (warps < kProductWarps && 2 * warps * blocks <= kWarpsOfMultiprocessor * multiprocessors) {
    warps *= 2;
  }
  return warps;
}

Status few_rows(const Tensor& x, const SmallWeight& weight, SmallWeightProduct& product) {
  const Gpu* gpu = find_gpu(x.device().index);
  if (gpu == nullptr) {
    return Status::kFailed;
  }
  const bool is_wide = product.m > 8;
  const int32_t tiles = is_wide ? 2 : 4;
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_small_weights_%d_%s_%d_%d_%d",
                      static_cast<int>(weight.bits), kind_of_halves(x), tiles, is_wide ? 2 : 1,
                      parts_of_group(weight));
  const int32_t rows = tiles * kWeightTileRows;
  const unsigned int blocks = static_cast<unsigned int>((product.n + rows - 1) / rows);
  const unsigned int warps = warps_of_block(blocks, gpu->multiprocessors);
  void* arguments[] = {&product};
  return launch_early(x.device().index, name, {blocks, warps * 32, 0}, arguments);
}

/// Part by part the weight becomes a matrix, for cuBLASLt.
Status many_rows(const Tensor& x, const SmallWeight& weight, const Tensor* bias, Tensor& out,
                 SmallWeightProduct& product) {
  const int64_t m = x.size(0);
  const int64_t k = product.k;
  const int64_t n = product.n;
  const int64_t most = std::clamp(kPartElements / k / 8 * 8, int64_t{8}, n);
  const int64_t part_sizes[] = {most, k};
  const Owned part(Tensor::empty(2, part_sizes, x.dtype(), x.device()));
  if (part == nullptr) {
    return Status::kFailed;
  }
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_unpack_weights_%d_%s",
                      static_cast<int>(weight.bits), kind_of_halves(x));
  product.out = part->data();
  for (int64_t first = 0; first < n; first += most) {
    const int64_t rows = std::min(most, n - first);
    int32_t first_row = static_cast<int32_t>(first);
    void* arguments[] = {&product, &first_row};
    const int64_t blocks = rows / kWeightTileRows * weight.codes->size(1);
    AOTIP_CHECK(blocks <= std::numeric_limits<int32_t>::max(), "the weight is too large");
    AOTIP_RETURN_IF_FAILED(
        launch_exactly(x.device().index, name, static_cast<unsigned int>(blocks), 32, arguments));
    const int64_t matrix_sizes[] = {k, rows};
    const int64_t matrix_strides[] = {1, k};
    const Owned matrix(part->view(2, matrix_sizes, matrix_strides, 0, x.dtype()));
    const int64_t out_sizes[] = {m, rows};
    const int64_t out_strides[] = {n, 1};
    const Owned columns(out.view(2, out_sizes, out_strides, first, x.dtype()));
    const int64_t one = 1;
    const Owned added(bias != nullptr
                          ? bias->view(1, &rows, &one, bias->storage_offset() + first, x.dtype())
                          : nullptr);
    if (matrix == nullptr || columns == nullptr || (bias != nullptr && added == nullptr)) {
      return Status::kFailed;
    }
    AOTIP_RETURN_IF_FAILED(
        matmul(*columns, added.get(), x, *matrix, bias != nullptr ? 1.0 : 0.0, 1.0));
  }
  return Status::kOk;
}

}  // namespace

Status small_weight_product(const Tensor& rows, const SmallWeight& weight, const Tensor* bias,
                            Tensor& out) noexcept {
  SmallWeightProduct product = product_of(weight, rows.size(1));
  if (rows.size(0) > kMostFewRows) {
    return many_rows(rows, weight, bias, out, product);
  }
  product.x = rows.data();
  product.x_step = product.k;
  product.m = static_cast<int32_t>(rows.size(0));
  product.bias = bias != nullptr ? bias->data() : nullptr;
  product.out = out.data();
  return few_rows(rows, weight, product);
}

}  // namespace aoti_plugins::cuda
