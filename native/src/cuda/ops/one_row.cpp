#include "cuda/ops/one_row.h"

#include <algorithm>
#include <cstdio>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/ops/small_weights.h"
#include "cuda/ops/streamed_row.h"

namespace aoti_plugins::cuda {
namespace {

/// Of a block's 48 KiB what is left beside the sums of its warps.
constexpr int64_t kMostSharedNbytes = 43 << 10;

/// Weights along k from which 16 warps share a row.
constexpr int32_t kLongRow = 4096;

/// Blocks for a multiprocessor and 8 warps of them.
constexpr int32_t kBlocksOfMultiprocessor = 2;

/// Whether a kernel without zeros, and with scales as the row, is left out of the image for a GPU:
/// of bfloat16 as kernels/streamed_row.cu has such products of these groups there, of float16 to
/// save room.
bool is_left_out(const Gpu& gpu, const OneRowKind& kind) {
  return gpu.kernels_arch >= 90 && (kind.bits == 4 ? kind.parts < 4 : kind.kind[0] != 'b');
}

/// What a block does: rows of the weight at a time, and its warps.
struct Shape {
  int32_t tiles;
  int32_t warps;
};

/// Measured on an H200, as parts of a token of a language model: blocks of 16 rows keep all
/// multiprocessors busy; of 32 need fewer instructions, which counts least with 8 bits. Long rows
/// of few blocks are shared by more warps.
Shape shape_of(const OneRowKind& kind, const OneRowProduct& product, bool is_plain,
               const Gpu& gpu) {
  const int32_t multiprocessors = gpu.multiprocessors;
  const bool is_bf16 = kind.kind[0] == 'b';
  const int32_t blocks = (product.n + 15) / 16;
  // Of 4 bits the image has no others for newer GPUs.
  if (!is_bf16 || !is_plain || (kind.bits == 4 && gpu.kernels_arch >= 90)) {
    return {2, 8};
  }
  if (blocks <= multiprocessors && product.k >= kLongRow) {
    return {2, 16};
  }
  return {kind.bits == 4 && blocks > kBlocksOfMultiprocessor * multiprocessors ? 4 : 2, 8};
}

unsigned int shared_nbytes(int64_t bits, int32_t parts, int64_t k) {
  const int64_t depth = tile_depth(bits);
  const int64_t filled = (k + depth - 1) / depth * depth;
  const int64_t sums = (filled / (parts * 32) + 3) / 4 * 4;
  return static_cast<unsigned int>(sums * 4 + filled * 2);
}

}  // namespace

bool fits_one_row(int64_t k) noexcept {
  return shared_nbytes(4, 1, k) <= kMostSharedNbytes;
}

void set_around(const Around& around, const Tensor* residual, OneRowProduct& product) noexcept {
  product.bias = around.bias != nullptr ? around.bias->data() : nullptr;
  product.norm = around.norm != nullptr ? around.norm->data() : nullptr;
  product.residual = residual != nullptr ? residual->data() : nullptr;
  product.epsilon = static_cast<float>(around.epsilon);
  product.gate = static_cast<int32_t>(around.gate);
}

Status one_row(int32_t gpu, const OneRowKind& kind, OneRowProduct& product) noexcept {
  const Gpu* where = find_gpu(gpu);
  AOTIP_RETURN_IF_NULL(where);
  if (const std::optional<StreamedShape> shape = streamed_shape(*where, kind, product)) {
    return streamed_row(*where, kind, *shape, product);
  }
  const bool is_plain =
      product.zero_kind == kNoZero && product.has_float_scale == 0 && !is_left_out(*where, kind);
  const Shape shape = shape_of(kind, product, is_plain, *where);
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_one_row_%d_%s_%d_%d_%d_%d",
                      static_cast<int>(kind.bits), kind.kind, shape.tiles, shape.warps, kind.parts,
                      is_plain ? 1 : 0);
  const int32_t rows = shape.tiles * kWeightTileRows;
  const int32_t most = where->multiprocessors * kBlocksOfMultiprocessor * 8 / shape.warps;
  const unsigned int blocks =
      static_cast<unsigned int>(std::min((product.n + rows - 1) / rows, most));
  void* arguments[] = {&product};
  return launch_wide(gpu, name,
                     {blocks, static_cast<unsigned int>(shape.warps * 32),
                      shared_nbytes(kind.bits, kind.parts, product.k)},
                     kind.is_constant, arguments);
}

}  // namespace aoti_plugins::cuda
