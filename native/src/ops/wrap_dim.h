#pragma once

#include <cstdint>

#include "slim/tensor.h"

namespace aoti_plugins {

/// Turns a dim that may count from the end into an index; a 0-dim tensor counts as one of one dim.
inline Status wrap_dim(const Tensor& tensor, int64_t dim, int64_t* ret) {
  const int64_t ndim = tensor.ndim() > 0 ? tensor.ndim() : 1;
  AOTIP_CHECK(dim >= -ndim && dim < ndim, "dim %lld is out of range for a %lld-dim tensor",
              static_cast<long long>(dim), static_cast<long long>(tensor.ndim()));
  *ret = dim < 0 ? dim + ndim : dim;
  return Status::kOk;
}

}  // namespace aoti_plugins
