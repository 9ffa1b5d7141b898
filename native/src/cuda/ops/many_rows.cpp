#include "cuda/ops/many_rows.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/driver.h"
#include "cuda/kernels/many_rows.h"
#include "cuda/kernels/one_row.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/small_weights.h"

namespace aoti_plugins::cuda {
namespace {

/// What a kernel for so many columns takes, in nanoseconds of an H100; measured with weights of 4
/// bits, [2048 to 28672, 2048 to 14336], and 24 to 2048 rows.
struct Times {
  int32_t columns;
  int32_t blocks;  ///< that a multiprocessor has room for
  int64_t tile;    ///< 128 along k, of a block that is alone on its multiprocessor
  int64_t more;    ///< that each other block there adds
};

constexpr Times kTimes[] = {{64, 2, 760, 550}, {128, 2, 890, 760}, {256, 1, 1360, 1450}};

/// Blocks that divide k, and of a thousand multiprocessors those on which clusters of them fit.
struct Splits {
  int32_t count;
  int64_t per_mille;
};

constexpr Splits kSplits[] = {{1, 1000}, {2, 1000}, {3, 960}, {4, 910}, {6, 910}, {8, 850}};

struct Plan {
  ManyRowsTile tile;
  ManyRowsShape shape;
  int64_t blocks;
  int64_t time;  ///< as estimated
};

int64_t quotient(int64_t of, int64_t by) {
  return (of + by - 1) / by;
}

Plan plan_of(const Gpu& gpu, const SmallWeightProduct& product, int64_t bits, const Times& times,
             const Splits& splits) {
  const int64_t x_tiles = quotient(product.m, times.columns);
  const int64_t tiles = x_tiles * quotient(product.n, kManyRowsOfWeight);
  const int64_t blocks = tiles * splits.count;
  const int64_t fitting = std::max<int64_t>(gpu.multiprocessors * splits.per_mille / 1000, 1);
  const int64_t others = quotient(blocks, fitting) - 1;
  const int64_t depth = tile_depth(bits);
  const int64_t steps = quotient(quotient(product.k, depth), splits.count);
  const int64_t step = (times.tile + others * times.more) * (bits == 4 ? 10 : 7) / 10;
  const int64_t adding = (splits.count - 1) * (400 + times.columns * 9);
  return {{times.columns},
          {splits.count, static_cast<int32_t>(x_tiles), kNoGate, nullptr},
          blocks,
          adding * (others < times.blocks ? 1 : others + 1) + steps * step};
}

Plan fastest(const Gpu& gpu, const SmallWeightProduct& product, int64_t bits) {
  const int64_t depth = tile_depth(bits);
  const bool has_splits = has_clusters(gpu.index);
  Plan best{};
  for (const Times& times : kTimes) {
    for (const Splits& splits : kSplits) {
      if (splits.count > 1 && (!has_splits || splits.count * depth > product.k)) {
        continue;
      }
      const Plan plan = plan_of(gpu, product, bits, times, splits);
      if (best.blocks == 0 || plan.time < best.time) {
        best = plan;
      }
    }
  }
  return best;
}

/// Where each block may have a multiprocessor of its own, none leaves room for a second: kernels
/// that begin early would find it, and two of a kernel's blocks share one while others idle.
unsigned int shared_nbytes(const Gpu& gpu, const Plan& plan) {
  const size_t own = static_cast<size_t>(plan.tile.shared_nbytes());
  const bool is_alone = plan.blocks <= gpu.multiprocessors;
  return static_cast<unsigned int>(is_alone ? std::max(own, gpu.shared_memory_nbytes / 2 + 1)
                                            : own);
}

/// Of rows of x, as kernels copy parts of `columns` rows.
Status encode(const Tensor& x, int32_t columns, CUtensorMap* ret) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(x.size(1)),
                              static_cast<cuuint64_t>(x.size(0))};
  const cuuint64_t strides[] = {sizes[0] * 2};
  const cuuint32_t box[] = {kSlabDepth, static_cast<cuuint32_t>(columns)};
  const cuuint32_t steps[] = {1, 1};
  AOTIP_CU(cuTensorMapEncodeTiled, ret, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, x.data(), sizes, strides,
           box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return Status::kOk;
}

}  // namespace

bool fits_many_rows(const Gpu& gpu, const SmallWeightProduct& product) noexcept {
  return gpu.arch() == 90 && driver().cuTensorMapEncodeTiled != nullptr &&
         product.has_float_scale == 0 && is_aligned(product.x) && is_aligned(product.out) &&
         is_aligned(product.bias);
}

Status many_rows(const Gpu& gpu, const Tensor& x, int64_t bits, bool is_constant,
                 SmallWeightProduct& product, const EndOfProduct& end) noexcept {
  const Plan plan = fastest(gpu, product, bits);
  AOTIP_CHECK(plan.blocks <= std::numeric_limits<int32_t>::max(), "the product is too large");
  CUtensorMap map;
  AOTIP_RETURN_IF_FAILED(encode(x, plan.tile.columns, &map));
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_many_rows_%d_%s_%d", static_cast<int>(bits),
                      kind_of_halves(x), plan.tile.columns);
  ManyRowsShape shape = plan.shape;
  shape.gate = static_cast<int32_t>(end.gate);
  shape.residual = end.residual != nullptr ? end.residual->data() : nullptr;
  void* arguments[] = {&product, &shape, &map};
  return launch_wide(gpu.index, name,
                     {static_cast<unsigned int>(plan.blocks), kManyRowsThreads,
                      shared_nbytes(gpu, plan), static_cast<unsigned int>(shape.splits)},
                     is_constant, arguments);
}

}  // namespace aoti_plugins::cuda
