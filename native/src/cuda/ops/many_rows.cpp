#include "cuda/ops/many_rows.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/driver.h"
#include "cuda/kernels/many_rows.h"
#include "cuda/kernels/one_row.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/many_rows_plan.h"
#include "cuda/ops/small_weights.h"

namespace aoti_plugins::cuda {
namespace {

/// Where each block may have a multiprocessor of its own, none leaves room for a second: kernels
/// that begin early would find it, and two of a kernel's blocks share one while others idle.
unsigned int shared_nbytes(const Gpu& gpu, const ManyRowsLaunch& one) {
  const size_t own = static_cast<size_t>(one.tile.shared_nbytes());
  const bool is_alone = one.blocks <= gpu.multiprocessors;
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

Status launch(const Gpu& gpu, const Tensor& x, int64_t bits, bool is_constant,
              const ManyRowsLaunch& one, SmallWeightProduct& product, const EndOfProduct& end) {
  AOTIP_CHECK(one.blocks <= std::numeric_limits<int32_t>::max(), "the product is too large");
  CUtensorMap map;
  AOTIP_RETURN_IF_FAILED(encode(x, one.tile.columns, &map));
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_many_%s_%d_%s_%d",
                      is_float(product.zero_kind) ? "floats" : "rows", static_cast<int>(bits),
                      kind_of_halves(x), one.tile.columns);
  ManyRowsShape shape = one.shape;
  shape.gate = static_cast<int32_t>(end.gate);
  shape.residual = end.residual != nullptr ? end.residual->data() : nullptr;
  void* arguments[] = {&product, &shape, &map};
  return launch_wide(gpu.index, name,
                     {static_cast<unsigned int>(one.blocks), kManyRowsThreads,
                      shared_nbytes(gpu, one), static_cast<unsigned int>(shape.splits)},
                     is_constant, arguments);
}

}  // namespace

bool fits_many_rows(const Gpu& gpu, const SmallWeightProduct& product) noexcept {
  return gpu.kernels_arch == 90 && driver().cuTensorMapEncodeTiled != nullptr &&
         product.has_float_scale == 0 && is_aligned(product.x) && is_aligned(product.out) &&
         is_aligned(product.bias);
}

Status many_rows(const Gpu& gpu, const Tensor& x, int64_t bits, bool is_constant,
                 SmallWeightProduct& product, const EndOfProduct& end) noexcept {
  const ManyRowsPlan plan =
      plan_many_rows(product, bits, gpu.multiprocessors, has_clusters(gpu.index));
  for (const ManyRowsLaunch& one : {plan.first, plan.second}) {
    if (one.blocks > 0) {
      AOTIP_RETURN_IF_FAILED(launch(gpu, x, bits, is_constant, one, product, end));
    }
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
