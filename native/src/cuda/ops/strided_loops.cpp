#include "cuda/ops/strided_loops.h"

#include <algorithm>

namespace aoti_plugins::cuda {

Status make_strided_loops(const Tensor& dst, const int64_t* src_strides,
                          StridedLoops* ret) noexcept {
  int64_t order[Tensor::kMaxDims];
  int64_t count = 0;
  for (int64_t d = 0; d < dst.ndim(); ++d) {
    if (dst.size(d) != 1) {
      order[count++] = d;
    }
  }
  std::stable_sort(order, order + count,
                   [&](int64_t a, int64_t b) { return dst.stride(a) < dst.stride(b); });
  ret->numel = dst.numel();
  ret->ndim = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t d = order[i];
    const int32_t last = ret->ndim - 1;
    if (last >= 0 && dst.stride(d) == ret->dst[last] * ret->sizes[last] &&
        src_strides[d] == ret->src[last] * ret->sizes[last]) {
      ret->sizes[last] *= dst.size(d);
      continue;
    }
    AOTIP_CHECK(ret->ndim < kStridedMaxDims, "copy: more than %d dims that cannot be merged",
                kStridedMaxDims);
    ret->sizes[ret->ndim] = dst.size(d);
    ret->dst[ret->ndim] = dst.stride(d);
    ret->src[ret->ndim] = src_strides[d];
    ++ret->ndim;
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
