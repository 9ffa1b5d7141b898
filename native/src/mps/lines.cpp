#include "mps/lines.h"

#include <cstdint>
#include <limits>

namespace aoti_plugins::mps {

Status make_lines(const Tensor* const* tensors, int32_t count, int64_t dim,
                  LinesArgs* ret) noexcept {
  const Tensor& last = *tensors[count - 1];
  *ret = LinesArgs{};
  ret->count = 1;
  ret->length = last.ndim() > 0 ? last.size(dim) : 1;
  for (int32_t t = 0; t < count; ++t) {
    ret->steps[t] = last.ndim() > 0 ? tensors[t]->stride(dim) : 0;
  }
  // The innermost of the other dims first, as neighbouring lines are.
  for (int64_t d = last.ndim() - 1; d >= 0; --d) {
    if (d == dim || last.size(d) == 1) {
      continue;
    }
    AOTIP_CHECK(ret->ndim < LINES_DIMS, "more than %d dims", LINES_DIMS + 1);
    ret->sizes[ret->ndim] = last.size(d);
    for (int32_t t = 0; t < count; ++t) {
      ret->starts[t][ret->ndim] = tensors[t]->stride(d);
    }
    ret->count *= last.size(d);
    ++ret->ndim;
  }
  AOTIP_CHECK(ret->count <= std::numeric_limits<uint32_t>::max() &&
                  ret->length <= std::numeric_limits<int32_t>::max(),
              "%lld lines of %lld elements are too many", static_cast<long long>(ret->count),
              static_cast<long long>(ret->length));
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
