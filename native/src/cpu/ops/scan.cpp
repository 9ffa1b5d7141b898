// cumsum and cumprod.

#include "cpu/ops/lines.h"
#include "cpu/ops/operators.h"
#include "slim/element.h"

namespace aoti_plugins::cpu {
namespace {

/// Floats accumulate in float64, integers in int64, where they wrap around.
template <bool kProduct>
void scan_line(const Line (&lines)[2], int64_t length, int32_t from, int32_t to) {
  Element total;
  total.kind = is_integer(to) ? Element::kInteger : Element::kReal;
  total.integer = kProduct ? 1 : 0;
  total.real = kProduct ? 1.0 : 0.0;
  uint64_t bits = static_cast<uint64_t>(total.integer);
  for (int64_t i = 0; i < length; ++i) {
    // Through the result's dtype, as PyTorch converts first.
    alignas(16) char converted[16];
    store_element(converted, to, load_element(lines[0].data + i * lines[0].step, from));
    const Element e = load_element(converted, to);
    if (total.kind == Element::kInteger) {
      const uint64_t value = static_cast<uint64_t>(e.integer);
      bits = kProduct ? bits * value : bits + value;
      total.integer = static_cast<int64_t>(bits);
    } else {
      total.real = kProduct ? total.real * e.real : total.real + e.real;
    }
    store_element(lines[1].data + i * lines[1].step, to, total);
  }
}

}  // namespace

Status Operators::scan(const Tensor& self, Tensor& out, int64_t dim, bool product) {
  const Tensor* const both[2] = {&self, &out};
  const int64_t length = self.ndim() > 0 ? self.size(dim) : 1;
  for_each_line(both, dim, [&](const Line(&lines)[2]) {
    product ? scan_line<true>(lines, length, self.dtype(), out.dtype())
            : scan_line<false>(lines, length, self.dtype(), out.dtype());
  });
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
