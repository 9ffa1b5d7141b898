// cumsum and cumprod.

#include "cpu/ops/lines.h"
#include "shim/run_shim.h"
#include "shim/wrap_dim.h"
#include "slim/element.h"

using namespace aoti_plugins;

namespace {

/// Floats accumulate in float64, integers in int64, where they wrap around.
template <bool kProduct>
void scan_line(const cpu::Line (&lines)[2], int64_t length, int32_t from, int32_t to) {
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

template <bool kProduct>
Status scan(AtenTensorHandle self, int64_t dim, const int32_t* dtype, AtenTensorHandle* ret) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK(ret != nullptr, "the address for the result is null");
  Tensor& t = *unwrap(self);
  const int32_t from = t.dtype();
  const int32_t to = dtype != nullptr   ? *dtype
                     : is_integer(from) ? static_cast<int32_t>(kInt64)
                                        : from;
  AOTIP_CHECK(t.device().type == kCpu, "self is on %s, expected cpu",
              device_type_name(t.device().type));
  AOTIP_CHECK(is_convertible(from) && (is_integer(to) || is_real(to)), "no running sum of %s as %s",
              dtype_name(from), dtype_name(to));
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  Tensor* out = Tensor::empty(t.ndim(), t.sizes(), to, Device{});
  if (out != nullptr && out->numel() > 0) {
    Tensor* const both[2] = {&t, out};
    const int64_t length = t.ndim() > 0 ? t.size(dim) : 1;
    cpu::for_each_line(both, dim, [&](const cpu::Line(&lines)[2]) {
      scan_line<kProduct>(lines, length, from, to);
    });
  }
  return give(out, ret);
}

}  // namespace

AOTITorchError aoti_torch_cpu_cumsum(AtenTensorHandle self, int64_t dim, int32_t* dtype,
                                     AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] { return scan<false>(self, dim, dtype, ret0); });
}

AOTITorchError aoti_torch_cpu_cumprod(AtenTensorHandle self, int64_t dim, int32_t* dtype,
                                      AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] { return scan<true>(self, dim, dtype, ret0); });
}
