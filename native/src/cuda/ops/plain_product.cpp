#include "cuda/ops/plain_product.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/plain_weights.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/small_weights.h"
#include "cuda/ops/weight_parts.h"
#include "ops/operand.h"

namespace aoti_plugins::cuda {
namespace {

constexpr int64_t kMostFewRows = 16;

/// Blocks of a multiprocessor, which the kernels' registers leave room for.
constexpr int64_t kBlocksOfMultiprocessor = 2;

/// Weights of a row whose scales a lane reads at once.
constexpr int64_t kReach = 128;

/// Weights of the smallest groups.
int64_t least_group(int64_t bits) {
  return bits == 6 ? 16 : 32;
}

/// A part of a weight: rows of `columns` elements of a dtype.
Status check_rows(const Tensor* part, const char* name, const Tensor& x, int64_t n, int64_t columns,
                  int32_t dtype, int64_t alignment) {
  AOTIP_CHECK(part->dtype() == dtype, "%s is %s, expected %s", name, dtype_name(part->dtype()),
              dtype_name(dtype));
  AOTIP_CHECK(
      part->ndim() == 2 && part->size(0) == n && part->size(1) == columns && part->is_contiguous(),
      "%s does not have the sizes [%lld, %lld] without gaps", name, static_cast<long long>(n),
      static_cast<long long>(columns));
  AOTIP_CHECK(reinterpret_cast<uintptr_t>(part->data()) % static_cast<uintptr_t>(alignment) == 0,
              "%s does not begin at a multiple of %lld bytes", name,
              static_cast<long long>(alignment));
  return ops::check_beside(*part, name, x);
}

Status check_group_size(const PlainWeight& weight, int64_t k) {
  const int64_t g = weight.group_size;
  const bool is_whole_row = weight.bits == 8 && g == k;
  const bool is_power = g >= least_group(weight.bits) && (g & (g - 1)) == 0 && k % g == 0;
  AOTIP_CHECK(
      is_whole_row || (is_power && (weight.bits == 8 || g <= kPlainStepDepth)),
      "groups of %lld weights of %lld bits, expected a power of two from %lld on that divides %lld",
      static_cast<long long>(g), static_cast<long long>(weight.bits),
      static_cast<long long>(least_group(weight.bits)),
      static_cast<long long>(weight.bits == 8 ? k : kPlainStepDepth));
  return Status::kOk;
}

Status check_codes(const Tensor& x, const PlainWeight& weight, int64_t n, int64_t k) {
  if (weight.bits == 8) {
    return check_rows(weight.low, "qdata", x, n, k, kInt8, 16);
  }
  // Whether a byte of two codes has a sign does not matter.
  const int32_t dtype = weight.low->dtype() == kInt8 ? kInt8 : kUInt8;
  AOTIP_RETURN_IF_FAILED(
      check_rows(weight.low, weight.high != nullptr ? "ql" : "qdata", x, n, k / 2, dtype, 16));
  if (weight.high != nullptr) {
    const int64_t columns = weight.bits == 5 ? k / 8 : k / 4;
    AOTIP_RETURN_IF_FAILED(check_rows(weight.high, "qh", x, n, columns, kUInt8, 16));
  }
  return Status::kOk;
}

Status check_groups(const Tensor& x, const PlainWeight& weight, int64_t n, int64_t k) {
  const int64_t groups = k / weight.group_size;
  const int64_t steps = k / kPlainStepDepth;
  const int32_t scale_dtype = weight.bits == 8 ? kBFloat16 : weight.bits == 6 ? kInt8 : kUInt8;
  AOTIP_RETURN_IF_FAILED(check_rows(weight.scale, "scale", x, n, groups, scale_dtype, 8));
  if (weight.zero != nullptr) {
    const int32_t dtype = weight.bits == 8 ? kInt8 : kUInt8;
    AOTIP_RETURN_IF_FAILED(check_rows(weight.zero, "zero", x, n, groups, dtype, 8));
  }
  if (weight.scale_step != nullptr) {
    AOTIP_RETURN_IF_FAILED(
        check_rows(weight.scale_step, "the scales' step", x, n, steps, kFloat16, 2));
  }
  if (weight.zero_step != nullptr) {
    AOTIP_RETURN_IF_FAILED(
        check_rows(weight.zero_step, "the zeros' step", x, n, steps, kFloat16, 2));
  }
  return Status::kOk;
}

Status check(const Tensor& x, const PlainWeight& weight) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(x, "self", kCuda));
  AOTIP_CHECK(x.dtype() == kBFloat16, "self is %s, expected bfloat16", dtype_name(x.dtype()));
  AOTIP_CHECK(x.ndim() >= 1, "self has no dims");
  const int64_t k = x.size(x.ndim() - 1);
  const int64_t depth = weight.bits == 8 ? kPlainPieceDepth : kPlainStepDepth;
  AOTIP_CHECK(k > 0 && k % depth == 0 && k <= std::numeric_limits<int32_t>::max() / 2,
              "rows of %lld elements, expected a multiple of %lld", static_cast<long long>(k),
              static_cast<long long>(depth));
  AOTIP_CHECK(weight.low->ndim() == 2 &&
                  weight.low->size(0) <= std::numeric_limits<int32_t>::max() - kPlainTileRows,
              "the weight is not [n, k]");
  AOTIP_CHECK(weight.low->nbytes() <= std::numeric_limits<uint32_t>::max(),
              "the weight has %zu bytes, expected less than 4 GiB", weight.low->nbytes());
  AOTIP_RETURN_IF_FAILED(check_group_size(weight, k));
  AOTIP_RETURN_IF_FAILED(check_codes(x, weight, weight.low->size(0), k));
  return check_groups(x, weight, weight.low->size(0), k);
}

const void* data_of(const Tensor* tensor) {
  return tensor != nullptr ? tensor->data() : nullptr;
}

/// The bytes of a word for four places along a row, `depth` weights apart, from place `first` on.
/// Two bytes of each item make a word for two places.
uint32_t order_of(int64_t first, int64_t depth, int64_t group_size, int64_t item_nbytes) {
  uint32_t order = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t place = first + i / item_nbytes;
    const int64_t item = group_size < kReach ? place * depth / group_size : 0;
    order |= static_cast<uint32_t>(item * item_nbytes + i % item_nbytes) << (4 * i);
  }
  return order;
}

PlainProduct product_of(const PlainWeight& weight, int64_t k) {
  PlainProduct product{};
  product.low = weight.low->data();
  product.high = data_of(weight.high);
  product.scale = weight.scale->data();
  product.scale_step = data_of(weight.scale_step);
  product.zero = data_of(weight.zero);
  product.zero_step = data_of(weight.zero_step);
  product.n = static_cast<int32_t>(weight.low->size(0));
  product.k = static_cast<int32_t>(k);
  product.groups = static_cast<int32_t>(k / weight.group_size);
  product.group_shift = group_shift_of(weight.group_size, k);
  // Of rows that end within a step the kernel reads one item for each place.
  const bool is_whole = k % kPlainStepDepth == 0;
  const int64_t g = is_whole ? weight.group_size : least_group(weight.bits);
  const int64_t item_nbytes = weight.bits == 8 ? 2 : 1;
  const int64_t depth = least_group(weight.bits);
  const int64_t items = std::max<int64_t>(kReach / g, 1);
  product.scale_nbytes = is_whole ? static_cast<int32_t>(items * item_nbytes) : 0;
  product.zero_nbytes = is_whole ? static_cast<int32_t>(items) : 0;
  product.scale_order[0] = order_of(0, depth, g, item_nbytes);
  product.scale_order[1] = order_of(4 / item_nbytes, depth, g, item_nbytes);
  product.zero_order = order_of(0, depth, g, 1);
  return product;
}

/// Whether the kernel for the smallest groups does.
bool is_narrow(const PlainWeight& weight, int64_t k) {
  return weight.group_size == least_group(weight.bits) && k % kPlainStepDepth == 0;
}

/// Whether no kernel of the program writes the weight.
bool is_constant(const PlainWeight& weight) {
  const Tensor* parts[] = {weight.low,        weight.high, weight.scale,
                           weight.scale_step, weight.zero, weight.zero_step};
  return std::all_of(std::begin(parts), std::end(parts),
                     [](const Tensor* part) { return part == nullptr || part->is_borrowed(); });
}

Status few_rows(const Tensor& x, const PlainWeight& weight, PlainProduct& product, Tensor& out) {
  const Gpu* gpu = find_gpu(x.device().index);
  AOTIP_RETURN_IF_NULL(gpu);
  product.x = x.data();
  product.m = static_cast<int32_t>(x.size(0));
  product.out = out.data();
  const int64_t pairs = product.m > 2 ? 2 : 1;
  const int64_t passes = (product.m + pairs * 2 - 1) / (pairs * 2);
  const int64_t tiles = (product.n + kPlainTileRows - 1) / kPlainTileRows;
  const int64_t most = gpu->multiprocessors * kBlocksOfMultiprocessor;
  const int64_t blocks = passes * std::clamp<int64_t>(most / passes, 1, tiles);
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_plain_int%d_%d_%d", static_cast<int>(weight.bits),
                      static_cast<int>(pairs), is_narrow(weight, x.size(1)) ? 1 : 0);
  void* arguments[] = {&product};
  return launch_wide(x.device().index, name,
                     {static_cast<unsigned int>(blocks), kPlainWarps * 32, 0}, is_constant(weight),
                     arguments);
}

Status many_rows(const Tensor& x, const PlainWeight& weight, PlainProduct& product, Tensor& out) {
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_unpack_plain_int%d",
                      static_cast<int>(weight.bits));
  return multiply_by_parts(x, product.n, nullptr, out, [&](void* to, int64_t first, int64_t rows) {
    product.out = to;
    int64_t eights = rows * (product.k / 8);
    void* arguments[] = {&product, &first, &eights};
    return launch_elements(x.device().index, name, eights, arguments);
  });
}

}  // namespace

Status plain_product(const Tensor& x, const PlainWeight& weight, AtenTensorHandle* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check(x, weight));
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(x.device().index));
  const int64_t k = x.size(x.ndim() - 1);
  int64_t sizes[Tensor::kMaxDims];
  std::copy_n(x.sizes(), x.ndim(), sizes);
  sizes[x.ndim() - 1] = weight.low->size(0);
  OwnedTensor out(Tensor::empty(x.ndim(), sizes, x.dtype(), x.device()));
  AOTIP_RETURN_IF_NULL(out);
  if (out->numel() > 0) {
    const int64_t m = x.numel() / k;
    OwnedTensor rows;
    AOTIP_RETURN_IF_FAILED(as_aligned_rows(x, m, k, &rows));
    const int64_t out_sizes[] = {m, weight.low->size(0)};
    const int64_t out_strides[] = {weight.low->size(0), 1};
    const OwnedTensor columns(
        out->view(2, out_sizes, out_strides, out->storage_offset(), x.dtype()));
    AOTIP_RETURN_IF_NULL(columns);
    PlainProduct product = product_of(weight, k);
    AOTIP_RETURN_IF_FAILED(
        (m > kMostFewRows ? many_rows : few_rows)(*rows, weight, product, *columns));
  }
  return give(out.release(), ret);
}

}  // namespace aoti_plugins::cuda
