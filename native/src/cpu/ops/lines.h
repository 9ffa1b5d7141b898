#pragma once

#include <cstdint>

#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// One tensor's part in a walk over lines: the address of its current line, and the step along it
/// in bytes.
struct Line {
  char* data;
  int64_t step;
};

/// Calls `body(lines)` for every line along `dim` of tensors that have equal sizes in all other
/// dims.
template <int kCount, typename Body>
void for_each_line(const Tensor* const (&tensors)[kCount], int64_t dim, const Body& body) {
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
