#include "cuda/ops/expert_linear.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/experts.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/around_products.h"
#include "cuda/ops/streamed_row.h"
#include "ops/operand.h"

namespace aoti_plugins::cuda {
namespace {

/// Tiles of 8 rows of a weight that a block of kernels/experts.cu has.
constexpr int64_t kTilesOfBlock = 2;

/// What was checked: rows without gaps, and what kernels are told.
struct Call {
  const Tensor& x;  ///< [m, k]
  const ExpertLinear& linear;
  SmallWeightProduct product;  ///< of one expert's matrix
  int64_t rows;                ///< of results, before they are added up
  const Tensor* residual;
};

int32_t gpu_of(const Call& call) {
  return call.x.device().index;
}

const int64_t* experts_of(const Call& call) {
  return static_cast<const int64_t*>(call.linear.experts->data());
}

const float* factors_of(const Call& call) {
  const Tensor* factors = call.linear.factors;
  return factors != nullptr ? static_cast<const float*>(factors->data()) : nullptr;
}

/// What stands in front of a product, and a gate behind it.
Around around_of(const ExpertLinear& linear) {
  return {nullptr, linear.norm, nullptr, linear.epsilon, linear.gate};
}

int64_t columns_of(const Call& call) {
  return call.product.n / (call.linear.gate != kNoGate ? 2 : 1);
}

Status check(const Tensor& x, const ExpertLinear& linear) {
  AOTIP_RETURN_IF_FAILED(check_rows_of_halves(x));
  AOTIP_CHECK(x.ndim() == 2, "x has %lld dims, expected 2", static_cast<long long>(x.ndim()));
  const Tensor& experts = *linear.experts;
  AOTIP_CHECK(experts.dtype() == kInt64 && experts.ndim() == 1 && experts.device() == x.device(),
              "experts is not an int64 vector on the GPU of x");
  AOTIP_CHECK(x.size(0) == 0 ? experts.numel() == 0 : experts.numel() % x.size(0) == 0,
              "%lld experts for %lld rows", static_cast<long long>(experts.numel()),
              static_cast<long long>(x.size(0)));
  AOTIP_CHECK(experts.numel() <= std::numeric_limits<int32_t>::max() / kExpertRows,
              "too many rows");
  AOTIP_RETURN_IF_FAILED(check_small_weight(x, linear.weight, x.size(1)));
  AOTIP_CHECK(!is_float(linear.weight.zero_kind), "weights of experts are floats of few bits");
  AOTIP_CHECK(linear.weight.scale->dtype() != kFloat16 || x.dtype() == kFloat16,
              "scale is float16, expected bfloat16 or float32");
  AOTIP_CHECK(linear.count > 0 && linear.count <= kMostExperts &&
                  linear.weight.codes->size(0) % linear.count == 0,
              "the weight is not of %lld experts, or these are more than %d",
              static_cast<long long>(linear.count), kMostExperts);
  const int64_t n = linear.weight.codes->size(0) / linear.count * kWeightTileRows;
  AOTIP_RETURN_IF_FAILED(check_around(x, around_of(linear), n));
  if (linear.factors == nullptr) {
    AOTIP_CHECK(linear.residual == nullptr, "a residual without factors");
    return Status::kOk;
  }
  const Tensor& factors = *linear.factors;
  AOTIP_CHECK(factors.dtype() == kFloat32 && factors.ndim() == 2 &&
                  factors.device() == x.device() && factors.numel() == experts.numel() &&
                  x.size(0) == experts.numel() && linear.gate == kNoGate &&
                  linear.norm == nullptr && factors.size(1) > 0,
              "factors is not float32 [rows, chosen] for as many rows of x, on its GPU, without "
              "gate and norm");
  const Tensor* residual = linear.residual;
  AOTIP_CHECK(
      residual == nullptr ||
          (residual->dtype() == x.dtype() && residual->device() == x.device() &&
           residual->ndim() == 2 && residual->size(0) == factors.size(0) && residual->size(1) == n),
      "the residual is not as the result, on the same GPU");
  return Status::kOk;
}

/// One row: the experts' matrices run through shared memory. False where there is no such kernel.
Status stream(const Call& call, Tensor& out, bool* is_done) {
  const int64_t chosen = call.rows;
  const bool is_sum = call.linear.factors != nullptr;
  const bool is_one_row = is_sum ? call.linear.factors->size(0) == 1 : call.x.size(0) == 1;
  const bool fits = !is_sum || call.product.k % kStreamedChunk == 0;
  const Gpu* gpu = find_gpu(gpu_of(call));
  AOTIP_RETURN_IF_NULL(gpu);
  *is_done = false;
  if (call.x.dtype() != kBFloat16 || !is_one_row || !fits || call.linear.weight.bits != 4 ||
      call.product.n % kStreamedRows != 0 ||
      chosen * std::max(call.product.n, call.product.k) > std::numeric_limits<int32_t>::max()) {
    return Status::kOk;
  }
  ExpertProduct product{};
  static_cast<SmallWeightProduct&>(product) = call.product;
  product.x = call.x.data();
  product.m = 1;
  product.out = out.data();
  set_around(around_of(call.linear), call.residual, product);
  product.experts = experts_of(call);
  product.factors = factors_of(call);
  product.count = static_cast<int32_t>(call.linear.count);
  product.chosen = static_cast<int32_t>(chosen);
  product.tiles = product.n / kWeightTileRows;
  product.is_second = call.linear.is_second ? 1 : 0;
  (is_sum ? product.k : product.n) *= product.chosen;
  const std::optional<StreamedShape> shape = streamed_experts_shape(*gpu, product);
  if (shape) {
    *is_done = true;
    return streamed_experts(*gpu, is_constant(around_of(call.linear)), *shape, product);
  }
  return Status::kOk;
}

OwnedTensor make_words(int64_t count, const Tensor& beside) {
  return OwnedTensor(Tensor::empty(1, &count, kInt32, beside.device()));
}

/// Puts numbers of rows in order of their experts, and says which ones each of `blocks` blocks has.
Status put_in_order(const Call& call, int64_t blocks, OwnedTensor* order, OwnedTensor* places) {
  *order = make_words(call.rows, call.x);
  *places =
      make_words(blocks * static_cast<int64_t>(sizeof(ExpertBlock) / sizeof(int32_t)), call.x);
  if (*order == nullptr || *places == nullptr) {
    return Status::kFailed;
  }
  ExpertOrder ordered{experts_of(call),
                      static_cast<int32_t*>((*order)->data()),
                      static_cast<ExpertBlock*>((*places)->data()),
                      static_cast<int32_t>(call.rows),
                      static_cast<int32_t>(call.linear.count),
                      static_cast<int32_t>(blocks)};
  const auto words = static_cast<unsigned int>(2 * call.linear.count + kExpertThreads / 32);
  void* arguments[] = {&ordered};
  return launch_early(gpu_of(call), "aotip_order_experts",
                      {1, kExpertThreads, words * static_cast<unsigned int>(sizeof(uint32_t))},
                      arguments);
}

/// Products [rows, n] of few rows, a block each, or of many, in order of their experts.
Status multiply(const Call& call, Tensor& out) {
  const int64_t count = call.linear.count;
  const Gpu* gpu = find_gpu(gpu_of(call));
  AOTIP_RETURN_IF_NULL(gpu);
  ExpertRowsProduct given{};
  given.product = call.product;
  given.product.x = call.x.data();
  given.product.x_step = call.product.k;
  given.product.out = out.data();
  given.experts = experts_of(call);
  given.count = static_cast<int32_t>(count);
  given.repeats = static_cast<int32_t>(call.rows / call.x.size(0));
  given.tile_blocks = static_cast<int32_t>((call.product.n + kTilesOfBlock * kWeightTileRows - 1) /
                                           (kTilesOfBlock * kWeightTileRows));
  int64_t blocks = call.rows;
  OwnedTensor order;
  OwnedTensor places;
  if (call.rows > std::max<int64_t>(kExpertRows / 2, count / 2)) {
    blocks = call.rows / kExpertRows + count;
    AOTIP_RETURN_IF_FAILED(put_in_order(call, blocks, &order, &places));
    given.order = static_cast<const int32_t*>(order->data());
    given.blocks = static_cast<const ExpertBlock*>(places->data());
  }
  const int64_t bits = call.linear.weight.bits;
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_experts_%d_%s", static_cast<int>(bits),
                      kind_of_halves(call.x));
  AOTIP_CHECK(blocks <= std::numeric_limits<int32_t>::max() / given.tile_blocks, "too many rows");
  const auto all = static_cast<unsigned int>(blocks * given.tile_blocks);
  void* arguments[] = {&given};
  return launch_early(gpu_of(call), name, {all, warps_of_block(all, gpu->multiprocessors) * 32, 0},
                      arguments);
}

Status add_up(const Call& call, const Tensor& product, Tensor& out) {
  ExpertSums sums{product.data(),
                  factors_of(call),
                  call.residual != nullptr ? call.residual->data() : nullptr,
                  out.data(),
                  call.product.n,
                  out.numel(),
                  static_cast<int32_t>(call.linear.factors->size(1))};
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_add_experts_%s", kind_of_halves(call.x));
  void* arguments[] = {&sums};
  return launch_elements(gpu_of(call), name, sums.numel, arguments);
}

/// Products, with a gate or a sum behind them.
Status multiply_between(const Call& call, Tensor& out) {
  const bool is_sum = call.linear.factors != nullptr;
  if (!is_sum && call.linear.gate == kNoGate) {
    return multiply(call, out);
  }
  const int64_t sizes[] = {call.rows, call.product.n};
  const OwnedTensor products(Tensor::empty(2, sizes, call.x.dtype(), call.x.device()));
  AOTIP_RETURN_IF_NULL(products);
  AOTIP_RETURN_IF_FAILED(multiply(call, *products));
  return is_sum ? add_up(call, *products, out) : gate_rows(*products, call.linear.gate, out);
}

Status compute(const Call& call, Tensor& out) {
  bool is_done = false;
  AOTIP_RETURN_IF_FAILED(stream(call, out, &is_done));
  if (is_done) {
    return Status::kOk;
  }
  if (call.linear.norm == nullptr) {
    return multiply_between(call, out);
  }
  OwnedTensor rows;
  AOTIP_RETURN_IF_FAILED(norm_of_rows(call.x, around_of(call.linear), &rows));
  return multiply_between({*rows, call.linear, call.product, call.rows, nullptr}, out);
}

}  // namespace

Status expert_linear(const Tensor& x, const ExpertLinear& linear, AtenTensorHandle* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check(x, linear));
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(x.device().index));
  OwnedTensor rows;
  AOTIP_RETURN_IF_FAILED(as_aligned_rows(x, x.size(0), x.size(1), &rows));
  ExpertLinear own = linear;
  OwnedTensor experts;
  AOTIP_RETURN_IF_FAILED(as_aligned_rows(*linear.experts, 1, linear.experts->numel(), &experts));
  own.experts = experts.get();
  // What was copied here is not what the kernel in front waited for.
  own.is_second = linear.is_second && experts->data() == linear.experts->data() &&
                  linear.weight.codes->is_borrowed() && linear.weight.scale->is_borrowed();
  OwnedTensor factors;
  if (linear.factors != nullptr) {
    AOTIP_RETURN_IF_FAILED(as_aligned_rows(*linear.factors, linear.factors->size(0),
                                           linear.factors->size(1), &factors));
    own.factors = factors.get();
  }
  Call call{*rows, own, product_of(linear.weight, x, x.size(1)), linear.experts->numel(), nullptr};
  call.product.n /= static_cast<int32_t>(linear.count);
  const int64_t sizes[] = {linear.factors != nullptr ? linear.factors->size(0) : call.rows,
                           columns_of(call)};
  OwnedTensor out(Tensor::empty(2, sizes, x.dtype(), x.device()));
  AOTIP_RETURN_IF_NULL(out);
  OwnedTensor residual;
  if (linear.residual != nullptr) {
    AOTIP_RETURN_IF_FAILED(as_aligned_rows(*linear.residual, sizes[0], sizes[1], &residual));
    call.residual = residual.get();
  }
  if (out->numel() > 0) {
    AOTIP_RETURN_IF_FAILED(compute(call, *out));
  }
  return give(out.release(), ret);
}

}  // namespace aoti_plugins::cuda
