#include "mps/ops/gemm_tiles.h"

#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"

namespace aoti_plugins::mps {

Size GemmTiles::groups(int64_t m, int64_t n, int64_t batch) const noexcept {
  return {static_cast<size_t>((n + side - 1) / side), static_cast<size_t>((m + side - 1) / side),
          static_cast<size_t>(batch)};
}

GemmTiles gemm_tiles(const std::string& defines, int64_t m, int64_t n, int64_t k) noexcept {
  const auto find = [&](int64_t simdgroup) {
    return find_kernel(metal_gemm, "gemm", defines + define("SIMDGROUP", simdgroup));
  };
  // Tiles of 64 x 64, by four simdgroups, or of 32 x 32; must match kernels/gemm.metal.
  if (m >= 32 && n >= 32 && k >= 16) {
    if (const Kernel* kernel = find(1)) {
      return {kernel, 64, {128, 1, 1}};
    }
  }
  return {find(0), 32, {256, 1, 1}};
}

}  // namespace aoti_plugins::mps
