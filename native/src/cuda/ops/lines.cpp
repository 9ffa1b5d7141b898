#include "cuda/ops/lines.h"

#include "ops/lines.h"

namespace aoti_plugins::cuda {

Status make_lines(const Tensor* const* tensors, int32_t count, int64_t dim, Lines* ret) noexcept {
  return describe_lines(tensors, count, dim, kLinesMaxDims, ret);
}

}  // namespace aoti_plugins::cuda
