#include "cuda/ops/strided_loops.h"

#include "slim/loops.h"

namespace aoti_plugins::cuda {

Status make_strided_loops(const Tensor& dst, const int64_t* src_strides,
                          StridedLoops* ret) noexcept {
  const Loops loops(dst.ndim(), dst.sizes(), dst.strides(), src_strides);
  ret->numel = dst.numel();
  AOTIP_CHECK(loops.describe(kStridedMaxDims, &ret->ndim, ret->sizes, ret->dst, ret->src),
              "copy: more than %d dims that cannot be merged", kStridedMaxDims);
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
