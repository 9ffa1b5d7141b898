// scatter: elements written, or combined, where an index tensor says.

#include <algorithm>

#include "cpu/ops/operators.h"
#include "slim/element.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {
namespace {

/// Calls `body(out, src)` with the offsets, in elements, that belong to every element of the index.
template <typename Body>
void for_each_index(const ops::Scatter& s, const Tensor& out, const Body& body) {
  const Tensor& index = *s.index;
  int64_t at[Tensor::kMaxDims] = {};
  for (int64_t i = 0; i < index.numel(); ++i) {
    int64_t in_index = 0;
    int64_t in_out = 0;
    int64_t in_src = 0;
    for (int64_t d = 0; d < index.ndim(); ++d) {
      in_index += at[d] * index.stride(d);
      in_src += s.src != nullptr ? at[d] * s.src->stride(d) : 0;
      in_out += d != s.dim ? at[d] * out.stride(d) : 0;
    }
    const int64_t place = index.data_as<int64_t>()[in_index];
    body(place, in_out + (index.ndim() > 0 ? place * out.stride(s.dim) : 0), in_src);
    for (int64_t d = index.ndim() - 1; d >= 0 && ++at[d] == index.size(d); --d) {
      at[d] = 0;
    }
  }
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

}  // namespace

Status Operators::check_places(const ops::Scatter& s) {
  const int64_t length = s.out->ndim() > 0 ? s.out->size(s.dim) : 1;
  int64_t bad = 0;
  bool found = false;
  if (s.index->numel() > 0) {
    for_each_index(s, *s.out, [&](int64_t place, int64_t, int64_t) {
      if (place < 0 || place >= length) {
        found = true;
        bad = place;
      }
    });
  }
  AOTIP_CHECK(!found, "index %lld is out of range for size %lld", static_cast<long long>(bad),
              static_cast<long long>(length));
  return Status::kOk;
}

Status Operators::scatter_pass(const ops::Scatter& s, Tensor& out, const Tensor* src, double value,
                               Combine combine) {
  const int32_t dtype = out.dtype();
  const int64_t itemsize = static_cast<int64_t>(out.itemsize());
  Element element;
  element.kind = Element::kReal;
  element.real = value;
  element.integer = combine != Combine::kWrite ? static_cast<int64_t>(value) : 0;
  for_each_index(s, out, [&](int64_t, int64_t in_out, int64_t in_src) {
    char* to = out.data_as<char>() + in_out * itemsize;
    if (src != nullptr) {
      element = load_element(src->data_as<char>() + in_src * itemsize, dtype);
    }
    store_element(to, dtype, combined(combine, load_element(to, dtype), element));
  });
  return Status::kOk;
}

Status Operators::fill_counts(Tensor& counts, int32_t number) {
  return fill(counts, &number);
}

Status Operators::divide(Tensor& out, const Tensor& counts) {
  const int32_t dtype = out.dtype();
  const int64_t itemsize = static_cast<int64_t>(out.itemsize());
  int64_t at[Tensor::kMaxDims] = {};
  for (int64_t i = 0; i < out.numel(); ++i) {
    int64_t in_out = 0;
    int64_t in_counts = 0;
    for (int64_t d = 0; d < out.ndim(); ++d) {
      in_out += at[d] * out.stride(d);
      in_counts += at[d] * counts.stride(d);
    }
    const int64_t n = counts.data_as<int32_t>()[in_counts];
    if (n > 1) {
      char* to = out.data_as<char>() + in_out * itemsize;
      Element e = load_element(to, dtype);
      if (e.kind == Element::kReal) {
        e.real /= static_cast<double>(n);
      } else {
        e.integer = e.integer / n - (e.integer % n < 0 ? 1 : 0);
      }
      store_element(to, dtype, e);
    }
    for (int64_t d = out.ndim() - 1; d >= 0 && ++at[d] == out.size(d); --d) {
      at[d] = 0;
    }
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
