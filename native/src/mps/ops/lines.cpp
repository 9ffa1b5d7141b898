#include "mps/ops/lines.h"

#include <cstdint>
#include <limits>

#include "ops/lines.h"

namespace aoti_plugins::mps {

Status make_lines(const Tensor* const* tensors, int32_t count, int64_t dim,
                  LinesArgs* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(describe_lines(tensors, count, dim, LINES_DIMS, ret));
  AOTIP_CHECK(ret->count <= std::numeric_limits<uint32_t>::max() &&
                  ret->length <= std::numeric_limits<int32_t>::max(),
              "%lld lines of %lld elements are too many", static_cast<long long>(ret->count),
              static_cast<long long>(ret->length));
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
