#pragma once

#include <algorithm>
#include <cstdint>

#include "slim/tensor.h"

namespace aoti_plugins {

/// The loops of one copy: dimensions of size 1 are gone, neighbours that make one run are merged,
/// and the innermost loop, which is the last, is the one with the smallest step in `dst`.
struct Loops {
  struct Dim {
    int64_t size;
    int64_t dst;  ///< how many elements a step moves on
    int64_t src;
  };

  int64_t count = 0;
  Dim dims[Tensor::kMaxDims];

  Loops(int64_t ndim, const int64_t* sizes, const int64_t* dst, const int64_t* src) noexcept {
    for (int64_t d = 0; d < ndim; ++d) {
      if (sizes[d] != 1) {
        dims[count++] = {sizes[d], dst[d], src[d]};
      }
    }
    std::stable_sort(dims, dims + count, [](const Dim& a, const Dim& b) { return a.dst > b.dst; });
    int64_t kept = 0;
    for (int64_t d = 0; d < count; ++d) {
      Dim* outer = kept > 0 ? &dims[kept - 1] : nullptr;
      if (outer != nullptr && outer->dst == dims[d].dst * dims[d].size &&
          outer->src == dims[d].src * dims[d].size) {
        *outer = {outer->size * dims[d].size, dims[d].dst, dims[d].src};
      } else {
        dims[kept++] = dims[d];
      }
    }
    count = kept;
  }

  /// Takes a loop out, for a copy that makes it within the innermost one.
  Dim take(int64_t d) noexcept {
    const Dim taken = dims[d];
    std::copy(dims + d + 1, dims + count, dims + d);
    --count;
    return taken;
  }

  /// Tells a kernel, the innermost first; false where it takes fewer dims.
  template <typename Size>
  bool describe(int32_t most_dims, int32_t* ret_ndim, Size* ret_sizes, int64_t* ret_dst,
                int64_t* ret_src) const noexcept {
    if (count > most_dims) {
      return false;
    }
    *ret_ndim = static_cast<int32_t>(count);
    for (int64_t i = 0; i < count; ++i) {
      const Dim& dim = dims[count - 1 - i];
      ret_sizes[i] = static_cast<Size>(dim.size);
      ret_dst[i] = dim.dst;
      ret_src[i] = dim.src;
    }
    return true;
  }
};

}  // namespace aoti_plugins
