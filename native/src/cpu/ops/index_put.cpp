// index_put: values written, or added, where a list of index tensors says.

#include "ops/index_put.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "slim/element.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {
namespace {

using Sizes = std::vector<int64_t>;

/// An index for one dim of `self`: its numbers in row-major order, and their sizes.
struct Index {
  Sizes sizes;
  std::vector<int64_t> numbers;
};

/// Calls `body(offset)` with the offset in elements of every element, in row-major order.
template <typename Body>
void for_each_element(const Tensor& t, const Body& body) {
  int64_t at[Tensor::kMaxDims] = {};
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t offset = 0;
    for (int64_t d = 0; d < t.ndim(); ++d) {
      offset += at[d] * t.stride(d);
    }
    body(offset, static_cast<const int64_t*>(at));
    for (int64_t d = t.ndim() - 1; d >= 0 && ++at[d] == t.size(d); --d) {
      at[d] = 0;
    }
  }
}

int64_t integer_at(const Tensor& t, int64_t offset) {
  return load_element(t.data_as<char>() + offset * static_cast<int64_t>(t.itemsize()), t.dtype())
      .integer;
}

/// A mask becomes one index per dim that it covers: the places where it is true.
Status append_mask(const Tensor& mask, const Tensor& self, size_t first,
                   std::vector<const Index*>* by_dim, std::vector<std::unique_ptr<Index>>* owner) {
  const size_t ndim = static_cast<size_t>(mask.ndim());
  AOTIP_CHECK(first + ndim <= by_dim->size(), "the indices have more dims than self");
  for (size_t d = 0; d < ndim; ++d) {
    const int64_t at = static_cast<int64_t>(d);
    AOTIP_CHECK(mask.size(at) == self.size(static_cast<int64_t>(first + d)),
                "the mask has size %lld in dim %zu, self has %lld there",
                static_cast<long long>(mask.size(at)), d,
                static_cast<long long>(self.size(static_cast<int64_t>(first + d))));
    owner->push_back(std::make_unique<Index>());
    (*by_dim)[first + d] = owner->back().get();
  }
  std::vector<Index*> columns;
  for (size_t d = 0; d < ndim; ++d) {
    columns.push_back((*owner)[owner->size() - ndim + d].get());
  }
  int64_t count = 0;
  for_each_element(mask, [&](int64_t offset, const int64_t* at) {
    if (integer_at(mask, offset) != 0) {
      ++count;
      for (size_t d = 0; d < ndim; ++d) {
        columns[d]->numbers.push_back(at[d]);
      }
    }
  });
  for (Index* column : columns) {
    column->sizes = {count};
  }
  return Status::kOk;
}

Status append_numbers(const Tensor& index, const Tensor& self, size_t dim,
                      std::vector<const Index*>* by_dim,
                      std::vector<std::unique_ptr<Index>>* owner) {
  AOTIP_CHECK(dim < by_dim->size(), "the indices have more dims than self");
  auto entry = std::make_unique<Index>();
  entry->sizes.assign(index.sizes(), index.sizes() + index.ndim());
  const int64_t length = self.size(static_cast<int64_t>(dim));
  int64_t bad = 0;
  bool found = false;
  for_each_element(index, [&](int64_t offset, const int64_t*) {
    const int64_t number = integer_at(index, offset);
    if (number < -length || number >= length) {
      found = true;
      bad = number;
    }
    entry->numbers.push_back(number < 0 ? number + length : number);
  });
  AOTIP_CHECK(!found, "index %lld is out of range for dim %zu with size %lld",
              static_cast<long long>(bad), dim, static_cast<long long>(length));
  (*by_dim)[dim] = entry.get();
  owner->push_back(std::move(entry));
  return Status::kOk;
}

Status broadcast(const Sizes& a, Sizes* ret) {
  Sizes& b = *ret;
  if (a.size() > b.size()) {
    b.insert(b.begin(), a.size() - b.size(), 1);
  }
  const size_t extra = b.size() - a.size();
  for (size_t d = 0; d < a.size(); ++d) {
    AOTIP_CHECK(a[d] == b[extra + d] || a[d] == 1 || b[extra + d] == 1,
                "the indices have sizes %lld and %lld, which do not broadcast",
                static_cast<long long>(a[d]), static_cast<long long>(b[extra + d]));
    b[extra + d] = a[d] == 1 ? b[extra + d] : a[d];
  }
  return Status::kOk;
}

/// Row-major number of the element of `sizes` that belongs to `at`, the last dims of which it
/// broadcasts to.
int64_t broadcast_offset(const Sizes& sizes, const int64_t* at, size_t ndim) {
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    offset = offset * sizes[d] + (sizes[d] == 1 ? 0 : at[ndim - sizes.size() + d]);
  }
  return offset;
}

/// The result's dims: those of the broadcast indices, in the place of the indexed dims where these
/// are neighbours and in front otherwise, and the dims of `self` that no index covers.
struct Layout {
  Sizes sizes;
  size_t index_first = 0;
  size_t index_ndim = 0;
  std::vector<size_t> free_dims;  ///< dims of self, in order
};

Layout make_layout(const Tensor& self, const std::vector<const Index*>& by_dim,
                   const Sizes& index_sizes) {
  Layout layout;
  size_t first = by_dim.size();
  size_t last = 0;
  size_t count = 0;
  for (size_t d = 0; d < by_dim.size(); ++d) {
    if (by_dim[d] != nullptr) {
      first = std::min(first, d);
      last = d;
      ++count;
    } else {
      layout.free_dims.push_back(d);
    }
  }
  const bool neighbours = count > 0 && last - first + 1 == count;
  layout.index_first = neighbours ? first : 0;
  layout.index_ndim = index_sizes.size();
  for (size_t d : layout.free_dims) {
    layout.sizes.push_back(self.size(static_cast<int64_t>(d)));
  }
  layout.sizes.insert(layout.sizes.begin() + static_cast<std::ptrdiff_t>(layout.index_first),
                      index_sizes.begin(), index_sizes.end());
  return layout;
}

/// Strides of `values` in the result's dims, 0 where they broadcast.
Status broadcast_values(const Tensor& values, const Layout& layout, int64_t* ret_strides) {
  const size_t ndim = layout.sizes.size();
  AOTIP_CHECK(ndim <= static_cast<size_t>(Tensor::kMaxDims), "too many dims");
  AOTIP_CHECK(static_cast<size_t>(values.ndim()) <= ndim, "values have more dims than the result");
  const size_t extra = ndim - static_cast<size_t>(values.ndim());
  for (size_t d = extra; d < ndim; ++d) {
    const int64_t v = static_cast<int64_t>(d - extra);
    AOTIP_CHECK(values.size(v) == layout.sizes[d] || values.size(v) == 1,
                "size %lld of dim %lld of values does not broadcast to %lld",
                static_cast<long long>(values.size(v)), static_cast<long long>(v),
                static_cast<long long>(layout.sizes[d]));
    ret_strides[d] = values.size(v) == 1 ? 0 : values.stride(v);
  }
  return Status::kOk;
}

void write_values(Tensor& out, const std::vector<const Index*>& by_dim, const Layout& layout,
                  const Tensor& values, const int64_t* value_strides, bool accumulate) {
  const size_t ndim = layout.sizes.size();
  int64_t numel = 1;
  for (int64_t size : layout.sizes) {
    numel *= size;
  }
  const int64_t itemsize = static_cast<int64_t>(out.itemsize());
  int64_t at[Tensor::kMaxDims] = {};
  for (int64_t i = 0; i < numel; ++i) {
    int64_t to = 0;
    int64_t from = 0;
    for (size_t d = 0; d < ndim; ++d) {
      from += at[d] * value_strides[d];
    }
    const int64_t* index_at = at + layout.index_first;
    for (size_t d = 0; d < by_dim.size(); ++d) {
      if (by_dim[d] != nullptr) {
        const int64_t n = broadcast_offset(by_dim[d]->sizes, index_at, layout.index_ndim);
        to += by_dim[d]->numbers[static_cast<size_t>(n)] * out.stride(static_cast<int64_t>(d));
      }
    }
    for (size_t f = 0; f < layout.free_dims.size(); ++f) {
      const size_t place = f < layout.index_first ? f : f + layout.index_ndim;
      to += at[place] * out.stride(static_cast<int64_t>(layout.free_dims[f]));
    }
    char* address = out.data_as<char>() + to * itemsize;
    Element value = load_element(values.data_as<char>() + from * itemsize, out.dtype());
    if (accumulate) {
      const Element old = load_element(address, out.dtype());
      value.integer = static_cast<int64_t>(static_cast<uint64_t>(old.integer) +
                                           static_cast<uint64_t>(value.integer));
      value.real += old.real;
      value.imag += old.imag;
    }
    store_element(address, out.dtype(), value);
    for (size_t d = ndim; d-- > 0 && ++at[d] == layout.sizes[d];) {
      at[d] = 0;
    }
  }
}

Status index_put(Tensor& out, const Tensor& self, const Tensor* const* indices, uint32_t count,
                 const Tensor& values, bool accumulate) {
  std::vector<const Index*> by_dim(static_cast<size_t>(self.ndim()), nullptr);
  std::vector<std::unique_ptr<Index>> owner;
  size_t dim = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Tensor* index = indices[i];
    if (index == nullptr) {
      ++dim;
      continue;
    }
    const int32_t dtype = index->dtype();
    if (dtype == kBool || dtype == kUInt8) {
      AOTIP_RETURN_IF_FAILED(append_mask(*index, self, dim, &by_dim, &owner));
      dim += static_cast<size_t>(index->ndim());
    } else {
      AOTIP_CHECK(dtype == kInt64 || dtype == kInt32, "index %u is %s, expected int64 or a mask", i,
                  dtype_name(dtype));
      AOTIP_RETURN_IF_FAILED(append_numbers(*index, self, dim, &by_dim, &owner));
      ++dim;
    }
  }
  Sizes index_sizes;
  for (const auto& index : owner) {
    AOTIP_RETURN_IF_FAILED(broadcast(index->sizes, &index_sizes));
  }
  const Layout layout = make_layout(self, by_dim, index_sizes);
  int64_t value_strides[Tensor::kMaxDims] = {};
  AOTIP_RETURN_IF_FAILED(broadcast_values(values, layout, value_strides));
  if (out.data() != self.data()) {
    AOTIP_RETURN_IF_FAILED(strided_copy(out, self));
  }
  write_values(out, by_dim, layout, values, value_strides, accumulate);
  return Status::kOk;
}

[[maybe_unused]] const bool registered = (ops::register_index_put(kCpu, index_put), true);

}  // namespace
}  // namespace aoti_plugins::cpu
