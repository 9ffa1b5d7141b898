// scatter: elements written, or combined, where an index tensor says.

#include <cstring>
#include <string>
#include <vector>

#include "cpu/ops/lines.h"
#include "shim/run_shim.h"
#include "shim/wrap_dim.h"
#include "slim/element.h"
#include "slim/strided_copy.h"

using namespace aoti_plugins;

namespace {

enum class Combine { kWrite, kSum, kProd, kMean, kMax, kMin };

/// One scatter. `src` is null when `value` is written everywhere.
struct Scatter {
  Tensor* out;
  const Tensor* self;
  const Tensor* index;
  const Tensor* src;
  Element value;
  int64_t dim;
  Combine combine;
  bool include_self;
};

Status check_tensors(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle index) {
  AOTIP_CHECK_TENSOR(out);
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_TENSOR(index);
  const Tensor& o = *unwrap(out);
  const Tensor& s = *unwrap(self);
  AOTIP_CHECK(
      o.device().type == kCpu && s.device().type == kCpu && unwrap(index)->device().type == kCpu,
      "all tensors must be on the cpu");
  AOTIP_CHECK(unwrap(index)->dtype() == kInt64, "index is %s, expected int64",
              dtype_name(unwrap(index)->dtype()));
  AOTIP_CHECK(o.dtype() == s.dtype(), "out is %s, expected %s as self", dtype_name(o.dtype()),
              dtype_name(s.dtype()));
  AOTIP_CHECK(is_convertible(o.dtype()) && o.dtype() != kComplex64 && o.dtype() != kComplex128,
              "no scatter for %s", dtype_name(o.dtype()));
  AOTIP_CHECK(o.ndim() == s.ndim() && std::equal(o.sizes(), o.sizes() + o.ndim(), s.sizes()),
              "the sizes of out and self differ");
  return Status::kOk;
}

/// Calls `body(out, src)` with the offsets, in elements, that belong to every element of the index.
template <typename Body>
void for_each_index(const Scatter& s, const Body& body) {
  const Tensor& index = *s.index;
  int64_t at[Tensor::kMaxDims] = {};
  for (int64_t i = 0; i < index.numel(); ++i) {
    int64_t in_index = 0;
    int64_t in_out = 0;
    int64_t in_src = 0;
    for (int64_t d = 0; d < index.ndim(); ++d) {
      in_index += at[d] * index.stride(d);
      in_src += s.src != nullptr ? at[d] * s.src->stride(d) : 0;
      in_out += d != s.dim ? at[d] * s.out->stride(d) : 0;
    }
    const int64_t place = index.data_as<int64_t>()[in_index];
    body(place, in_out + (index.ndim() > 0 ? place * s.out->stride(s.dim) : 0), in_src);
    for (int64_t d = index.ndim() - 1; d >= 0 && ++at[d] == index.size(d); --d) {
      at[d] = 0;
    }
  }
}

Status check_index(const Scatter& s) {
  const Tensor& index = *s.index;
  AOTIP_CHECK(index.ndim() == s.out->ndim() || index.numel() == 0,
              "index has %lld dims, expected %lld", static_cast<long long>(index.ndim()),
              static_cast<long long>(s.out->ndim()));
  AOTIP_CHECK(s.src == nullptr || s.src->ndim() == index.ndim() || index.numel() == 0,
              "src has %lld dims, expected %lld as index",
              static_cast<long long>(s.src != nullptr ? s.src->ndim() : 0),
              static_cast<long long>(index.ndim()));
  for (int64_t d = 0; d < index.ndim() && index.numel() > 0; ++d) {
    const bool fits = (d == s.dim || index.size(d) <= s.out->size(d)) &&
                      (s.src == nullptr || index.size(d) <= s.src->size(d));
    AOTIP_CHECK(fits, "size %lld of dim %lld of index is larger than that of self or src",
                static_cast<long long>(index.size(d)), static_cast<long long>(d));
  }
  const int64_t length = s.out->ndim() > 0 ? s.out->size(s.dim) : 1;
  int64_t bad = 0;
  bool found = false;
  for_each_index(s, [&](int64_t place, int64_t, int64_t) {
    if (place < 0 || place >= length) {
      found = true;
      bad = place;
    }
  });
  AOTIP_CHECK(!found, "index %lld is out of range for size %lld", static_cast<long long>(bad),
              static_cast<long long>(length));
  return Status::kOk;
}

Element combined(Combine combine, const Element& a, const Element& b) {
  if (combine == Combine::kWrite) {
    return b;
  }
  Element r = a;
  if (a.kind != Element::kReal) {
    const uint64_t x = static_cast<uint64_t>(a.integer);
    const uint64_t y = static_cast<uint64_t>(b.integer);
    switch (combine) {
      case Combine::kProd:
        r.integer = static_cast<int64_t>(x * y);
        break;
      case Combine::kMax:
        r.integer = std::max(a.integer, b.integer);
        break;
      case Combine::kMin:
        r.integer = std::min(a.integer, b.integer);
        break;
      default:
        r.integer = static_cast<int64_t>(x + y);
        break;
    }
    return r;
  }
  switch (combine) {
    case Combine::kProd:
      r.real = a.real * b.real;
      break;
    case Combine::kMax:
      r.real = a.real != a.real || a.real > b.real ? a.real : b.real;
      break;
    case Combine::kMin:
      r.real = a.real != a.real || a.real < b.real ? a.real : b.real;
      break;
    default:
      r.real = a.real + b.real;
      break;
  }
  return r;
}

Status run(const Scatter& s) {
  AOTIP_RETURN_IF_FAILED(check_index(s));
  Tensor& out = *s.out;
  const int32_t dtype = out.dtype();
  const int64_t itemsize = static_cast<int64_t>(out.itemsize());
  if (out.data() != s.self->data()) {
    AOTIP_RETURN_IF_FAILED(strided_copy(out, *s.self));
  }
  // How many elements each place was combined from; only for what needs it.
  std::vector<int64_t> counts;
  if (s.combine != Combine::kWrite && (!s.include_self || s.combine == Combine::kMean)) {
    counts.resize(out.storage_nbytes() / out.itemsize());
  }
  for_each_index(s, [&](int64_t, int64_t in_out, int64_t in_src) {
    char* to = out.data_as<char>() + in_out * itemsize;
    const Element value = s.src != nullptr
                              ? load_element(s.src->data_as<char>() +
                                                 in_src * static_cast<int64_t>(s.src->itemsize()),
                                             s.src->dtype())
                              : s.value;
    const bool first = !counts.empty() && counts[static_cast<size_t>(in_out)]++ == 0;
    store_element(
        to, dtype,
        first && !s.include_self ? value : combined(s.combine, load_element(to, dtype), value));
  });
  if (s.combine != Combine::kMean) {
    return Status::kOk;
  }
  for_each_index(s, [&](int64_t, int64_t in_out, int64_t) {
    int64_t& count = counts[static_cast<size_t>(in_out)];
    if (count == 0) {
      return;  // divided already
    }
    char* to = out.data_as<char>() + in_out * itemsize;
    Element e = load_element(to, dtype);
    const int64_t n = count + (s.include_self ? 1 : 0);
    if (e.kind == Element::kReal) {
      e.real /= static_cast<double>(n);
    } else {
      e.integer = e.integer / n - (e.integer % n < 0 ? 1 : 0);
    }
    store_element(to, dtype, e);
    count = 0;
  });
  return Status::kOk;
}

Status scatter(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
               AtenTensorHandle src, double value, Combine combine, bool include_self) {
  AOTIP_RETURN_IF_FAILED(check_tensors(out, self, index));
  AOTIP_RETURN_IF_FAILED(wrap_dim(*unwrap(out), dim, &dim));
  Element element;
  element.kind = Element::kReal;
  element.real = value;
  return run(
      {unwrap(out), unwrap(self), unwrap(index), unwrap(src), element, dim, combine, include_self});
}

Status scatter_src(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
                   AtenTensorHandle src, Combine combine, bool include_self) {
  AOTIP_CHECK_TENSOR(src);
  AOTIP_CHECK_TENSOR(out);
  AOTIP_CHECK(unwrap(src)->dtype() == unwrap(out)->dtype() && unwrap(src)->device().type == kCpu,
              "src is %s on %s, expected %s on cpu", dtype_name(unwrap(src)->dtype()),
              device_type_name(unwrap(src)->device().type), dtype_name(unwrap(out)->dtype()));
  return scatter(out, self, dim, index, src, 0.0, combine, include_self);
}

Status scatter_reduce(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                      AtenTensorHandle index, AtenTensorHandle src, const char* reduce,
                      bool include_self) {
  AOTIP_CHECK_ARG(reduce);
  const std::pair<const char*, Combine> names[] = {
      {"sum", Combine::kSum},  {"prod", Combine::kProd}, {"mean", Combine::kMean},
      {"amax", Combine::kMax}, {"amin", Combine::kMin},
  };
  for (const auto& [name, combine] : names) {
    if (std::strcmp(reduce, name) == 0) {
      return scatter_src(out, self, dim, index, src, combine, include_self);
    }
  }
  return fail("reduce is '%s', expected sum, prod, mean, amax or amin", reduce);
}

}  // namespace

AOTITorchError aoti_torch_cpu_scatter_src_out(AtenTensorHandle out, AtenTensorHandle self,
                                              int64_t dim, AtenTensorHandle index,
                                              AtenTensorHandle src) {
  return run_shim(__func__,
                  [&] { return scatter_src(out, self, dim, index, src, Combine::kWrite, true); });
}

AOTITorchError aoti_torch_scatter_out(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                                      AtenTensorHandle index, AtenTensorHandle src) {
  return run_shim(__func__,
                  [&] { return scatter_src(out, self, dim, index, src, Combine::kWrite, true); });
}

AOTITorchError aoti_torch_cpu_scatter_value_out(AtenTensorHandle out, AtenTensorHandle self,
                                                int64_t dim, AtenTensorHandle index, double value) {
  return run_shim(__func__, [&] {
    return scatter(out, self, dim, index, nullptr, value, Combine::kWrite, true);
  });
}

AOTITorchError aoti_torch_cpu_scatter_reduce_two_out(AtenTensorHandle out, AtenTensorHandle self,
                                                     int64_t dim, AtenTensorHandle index,
                                                     AtenTensorHandle src, const char* reduce,
                                                     int32_t include_self) {
  return run_shim(__func__, [&] {
    return scatter_reduce(out, self, dim, index, src, reduce, include_self != 0);
  });
}

AOTITorchError aoti_torch_scatter_reduce_out(AtenTensorHandle out, AtenTensorHandle self,
                                             int64_t dim, AtenTensorHandle index,
                                             AtenTensorHandle src, const char* reduce,
                                             int32_t include_self) {
  return run_shim(__func__, [&] {
    return scatter_reduce(out, self, dim, index, src, reduce, include_self != 0);
  });
}
