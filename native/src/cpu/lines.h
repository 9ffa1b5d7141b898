#pragma once

#include <cstdint>

#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// Turns a dim that may count from the end into an index; a 0-dim tensor counts as one of one dim.
inline Status wrap_dim(const Tensor& tensor, int64_t dim, int64_t* ret) {
  const int64_t ndim = tensor.ndim() > 0 ? tensor.ndim() : 1;
  AOTIP_CHECK(dim >= -ndim && dim < ndim, "dim %lld is out of range for a %lld-dim tensor",
              static_cast<long long>(dim), static_cast<long long>(tensor.ndim()));
  *ret = dim < 0 ? dim + ndim : dim;
  return Status::kOk;
}

/// One tensor's part in a walk over lines: the address of its current line, and the step along it
/// in bytes.
struct Line {
  char* data;
  int64_t step;
};

/// Calls `body(lines)` for every line along `dim` of tensors that have equal sizes in all other
/// dims.
template <int kCount, typename Body>
void for_each_line(Tensor* const (&tensors)[kCount], int64_t dim, const Body& body) {
  const Tensor& first = *tensors[0];
  int64_t index[Tensor::kMaxDims] = {};
  Line lines[kCount];
  for (int t = 0; t < kCount; ++t) {
    const int64_t itemsize = static_cast<int64_t>(tensors[t]->itemsize());
    lines[t].data = tensors[t]->template data_as<char>();
    lines[t].step = first.ndim() > 0 ? tensors[t]->stride(dim) * itemsize : 0;
  }
  for (;;) {
    body(lines);
    int64_t d = first.ndim() - 1;
    for (; d >= 0; --d) {
      if (d == dim) {
        continue;
      }
      const bool wraps = ++index[d] == first.size(d);
      for (int t = 0; t < kCount; ++t) {
        const int64_t step = tensors[t]->stride(d) * static_cast<int64_t>(tensors[t]->itemsize());
        lines[t].data += wraps ? -step * (first.size(d) - 1) : step;
      }
      if (!wraps) {
        break;
      }
      index[d] = 0;
    }
    if (d < 0) {
      return;
    }
  }
}

}  // namespace aoti_plugins::cpu
