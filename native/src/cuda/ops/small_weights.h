#pragma once

#include <cstdint>

#include "cuda/kernels/small_weights.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// A weight [n, k] of 4 or 8 bits, all of it on one GPU; docs/small-weights.md has the layout.
struct SmallWeight {
  const Tensor* codes;  ///< [n / 8, tiles along k, 512] of uint8
  const Tensor* scale;  ///< [n / 8, groups, 8], as x, float32, or of `fused_linear` float16
  const Tensor* zero;   ///< as scale; null for none; of floats as kernels/small_weights.h says
  int64_t bits;
  int64_t group_size;   ///< a power of two from 32 on, or k; of floats 32 of 8 bits, 16 of 4
  int64_t zero_kind;    ///< a GroupZero of kernels/small_weights.h
  bool is_new = false;  ///< whether a kernel in front, of the same call, writes scales and zeros
};

/// What names a kernel of kernels/small_weights.cu, beside the dtype of x.
struct SmallWeightKind {
  int64_t bits;      ///< 4 or 8
  int32_t parts;     ///< what `parts_of_group` says
  bool is_constant;  ///< whether no kernel writes the weight, so that it may be read early
};

/// What becomes of a product [m, n] behind the sum.
struct EndOfProduct {
  const Tensor* residual = nullptr;  ///< as the result, without gaps, or null: is added
  int64_t gate = 0;                  ///< a Gate of kernels/one_row.h: the result is [m, n / 2]
};

/// Whether a weight is one, for rows of `k` elements of x's dtype on x's GPU.
Status check_small_weight(const Tensor& x, const SmallWeight& weight, int64_t k);

/// What kernels are told of a weight that was checked.
SmallWeightProduct product_of(const SmallWeight& weight, const Tensor& x, int64_t k);

/// Weights along k of one row in a tile.
constexpr int64_t tile_depth(int64_t bits) {
  return bits == 4 ? kWeightTileDepth4 : kWeightTileDepth8;
}

/// How a dtype of 16 bits is called in names of kernels.
const char* kind_of_halves(const Tensor& x);

/// Parts of 32 weights after which a group may end, of a tile's.
int32_t parts_of_group(int64_t bits, int64_t group_size);

/// Warps of a block that divide the sums, where there are so many blocks.
unsigned int warps_of_block(int64_t blocks, int32_t multiprocessors);

/// Of rows of `k` weights with a power of two, or all, in a group: that power; 31 for all.
int32_t group_shift_of(int64_t group_size, int64_t k);

/// Writes to `out` [m, n] rows [m, k] times the transpose of a weight that was checked, plus `bias`
/// [n] unless it is null; rows one behind the other, aligned to 16 bytes.
///
/// @param end what `ends_products` says this kernel does as well.
Status small_weight_product(const Tensor& rows, const SmallWeight& weight, const Tensor* bias,
                            const EndOfProduct& end, Tensor& out) noexcept;

/// Whether the kernel for these rows and this weight also takes care of gate and residual.
bool ends_products(const Tensor& rows, const SmallWeight& weight, const Tensor* bias) noexcept;

/// The product alone, with a weight [n, k] that kernels are told of as `product` has it.
Status small_weight_product(const Tensor& rows, const SmallWeightKind& kind,
                            SmallWeightProduct& product, const Tensor* bias, Tensor& out) noexcept;

}  // namespace aoti_plugins::cuda
