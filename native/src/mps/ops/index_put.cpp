// index_put: values written, or added, where a list of index tensors says.

#include "ops/index_put.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <vector>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"
#include "mps/ops/scatter_lines.h"
#include "mps/session/mps_device.h"

namespace aoti_plugins::mps {
namespace {

using Sizes = std::vector<int64_t>;

long long ll(int64_t value) {
  return static_cast<long long>(value);
}

/// The index of each dim of self, or null; `owned` keeps those that were made from masks.
struct Indices {
  std::vector<const Tensor*> by_dim;
  std::vector<OwnedTensor> owned;
  Sizes sizes;  ///< that they broadcast to
};

/// Numbers in host memory, as a tensor on the device.
Status upload(const Sizes& numbers, Device device, OwnedTensor* ret) {
  const int64_t count = static_cast<int64_t>(numbers.size());
  ret->reset(Tensor::empty(1, &count, kInt64, device));
  AOTIP_RETURN_IF_NULL(*ret);
  if (count == 0) {
    return Status::kOk;
  }
  const int64_t stride = 1;
  const OwnedTensor host(Tensor::borrow(const_cast<int64_t*>(numbers.data()), 1, &count, &stride, 0,
                                        kInt64, Device{}));
  return host != nullptr ? mps_device().copy(**ret, *host) : Status::kFailed;
}

/// A mask becomes one index per dim that it covers: the places where it is true. How many there are
/// is known only when the GPU is done with the mask, so this waits for it.
Status append_mask(const Tensor& mask, const Tensor& self, size_t first, Indices* indices) {
  const size_t ndim = static_cast<size_t>(mask.ndim());
  AOTIP_CHECK(ndim > 0 && first + ndim <= indices->by_dim.size(),
              "the indices have more dims than self");
  for (size_t d = 0; d < ndim; ++d) {
    const int64_t size = mask.size(static_cast<int64_t>(d));
    const int64_t expected = self.size(static_cast<int64_t>(first + d));
    AOTIP_CHECK(size == expected, "the mask has size %lld in dim %zu, self has %lld there",
                ll(size), d, ll(expected));
  }
  const OwnedTensor host(Tensor::empty(mask.ndim(), mask.sizes(), mask.dtype(), Device{}));
  AOTIP_RETURN_IF_NULL(host);
  if (mask.numel() > 0) {
    AOTIP_RETURN_IF_FAILED(mps_device().copy(*host, mask));
  }
  std::vector<Sizes> columns(ndim);
  for (int64_t i = 0; i < mask.numel(); ++i) {
    if (host->data_as<uint8_t>()[i] != 0) {
      int64_t rest = i;
      for (size_t d = ndim; d-- > 0;) {
        columns[d].push_back(rest % mask.size(static_cast<int64_t>(d)));
        rest /= mask.size(static_cast<int64_t>(d));
      }
    }
  }
  for (size_t d = 0; d < ndim; ++d) {
    OwnedTensor index;
    AOTIP_RETURN_IF_FAILED(upload(columns[d], self.device(), &index));
    indices->by_dim[first + d] = index.get();
    indices->owned.push_back(std::move(index));
  }
  return Status::kOk;
}

Status broadcast(const Tensor& index, Sizes* ret) {
  Sizes& all = *ret;
  const size_t ndim = static_cast<size_t>(index.ndim());
  if (ndim > all.size()) {
    all.insert(all.begin(), ndim - all.size(), 1);
  }
  for (size_t d = 0; d < ndim; ++d) {
    const int64_t size = index.size(static_cast<int64_t>(d));
    int64_t& other = all[all.size() - ndim + d];
    AOTIP_CHECK(size == other || size == 1 || other == 1,
                "the indices have sizes %lld and %lld, which do not broadcast", ll(size),
                ll(other));
    other = size == 1 ? other : size;
  }
  return Status::kOk;
}

Status read_indices(const Tensor& self, const Tensor* const* tensors, uint32_t count,
                    Indices* ret) {
  ret->by_dim.assign(static_cast<size_t>(self.ndim()), nullptr);
  size_t dim = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (tensors[i] == nullptr) {
      ++dim;
      continue;
    }
    const Tensor& index = *tensors[i];
    if (index.dtype() == kBool || index.dtype() == kUInt8) {
      AOTIP_RETURN_IF_FAILED(append_mask(index, self, dim, ret));
      dim += static_cast<size_t>(index.ndim());
      continue;
    }
    AOTIP_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32,
                "index %u is %s, expected int64 or a mask", i, dtype_name(index.dtype()));
    AOTIP_CHECK(dim < ret->by_dim.size(), "the indices have more dims than self");
    ret->by_dim[dim++] = &index;
  }
  for (const Tensor* index : ret->by_dim) {
    if (index != nullptr) {
      AOTIP_RETURN_IF_FAILED(broadcast(*index, &ret->sizes));
    }
  }
  AOTIP_CHECK(std::any_of(ret->by_dim.begin(), ret->by_dim.end(),
                          [](const Tensor* index) { return index != nullptr; }),
              "there is no index");
  return Status::kOk;
}

/// The dims of the result that are walked over: those of the indices, in the place of the indexed
/// dims where these are neighbours and in front otherwise, and the dims of self without an index.
struct Layout {
  Sizes sizes;
  Sizes value_strides;  ///< 0 where the values broadcast
  size_t index_first = 0;
  std::vector<int64_t> free_dims;  ///< of self, in order

  /// Where a free dim is among `sizes`.
  size_t free_place(size_t i, size_t index_ndim) const {
    return i < index_first ? i : i + index_ndim;
  }
};

Status make_layout(const Tensor& self, const Indices& indices, const Tensor& values, Layout* ret) {
  size_t first = indices.by_dim.size();
  size_t last = 0;
  size_t count = 0;
  for (size_t d = 0; d < indices.by_dim.size(); ++d) {
    if (indices.by_dim[d] == nullptr) {
      ret->free_dims.push_back(static_cast<int64_t>(d));
      ret->sizes.push_back(self.size(static_cast<int64_t>(d)));
      continue;
    }
    first = std::min(first, d);
    last = d;
    ++count;
  }
  ret->index_first = last - first + 1 == count ? first : 0;
  ret->sizes.insert(ret->sizes.begin() + static_cast<std::ptrdiff_t>(ret->index_first),
                    indices.sizes.begin(), indices.sizes.end());
  const size_t ndim = ret->sizes.size();
  AOTIP_CHECK(ndim <= LINES_DIMS, "more than %d dims", LINES_DIMS);
  AOTIP_CHECK(static_cast<size_t>(values.ndim()) <= ndim, "values have more dims than the result");
  ret->value_strides.assign(ndim, 0);
  const size_t extra = ndim - static_cast<size_t>(values.ndim());
  for (size_t d = extra; d < ndim; ++d) {
    const int64_t v = static_cast<int64_t>(d - extra);
    AOTIP_CHECK(values.size(v) == ret->sizes[d] || values.size(v) == 1,
                "size %lld of dim %lld of values does not broadcast to %lld", ll(values.size(v)),
                ll(v), ll(ret->sizes[d]));
    ret->value_strides[d] = values.size(v) == 1 ? 0 : values.stride(v);
  }
  return Status::kOk;
}

/// Adds the dim of one index to all places.
Status add_dim(const Tensor& out, const Indices& indices, const Layout& layout, size_t dim,
               bool first, const Tensor& places, const Tensor& sources) {
  const Tensor& index = *indices.by_dim[dim];
  IndexArgs args{};
  args.numel = places.numel();
  args.length = out.size(static_cast<int64_t>(dim));
  args.stride = out.stride(static_cast<int64_t>(dim));
  args.first = first ? 1 : 0;
  const size_t ndim = indices.sizes.size();
  const size_t extra = ndim - static_cast<size_t>(index.ndim());
  for (size_t d = ndim; d-- > 0;) {
    const int64_t own = static_cast<int64_t>(d - extra);
    args.sizes[args.ndim] = indices.sizes[d];
    args.index[args.ndim] = d < extra || index.size(own) == 1 ? 0 : index.stride(own);
    args.src[args.ndim] = layout.value_strides[layout.index_first + d];
    ++args.ndim;
  }
  const Kernel* kernel = find_kernel(metal_index, "index_places",
                                     define("INDEX_T", index.dtype() == kInt64 ? "long" : "int"));
  const size_t threads = kernel != nullptr ? std::min<size_t>(max_threads(*kernel), 256) : 1;
  Launch launch(kernel);
  return launch.tensor(places).tensor(sources).tensor(index).value(args).threads(
      {static_cast<size_t>(args.numel)}, {threads});
}

Status write(const Tensor& out, const Indices& indices, const Layout& layout, const Tensor& values,
             bool accumulate) {
  int64_t count = 1;
  for (int64_t size : indices.sizes) {
    count *= size;
  }
  AOTIP_CHECK(count <= std::numeric_limits<uint32_t>::max(), "%lld places are too many", ll(count));
  const OwnedTensor places(Tensor::empty(1, &count, kInt64, out.device()));
  const OwnedTensor sources(Tensor::empty(1, &count, kInt64, out.device()));
  if (places == nullptr || sources == nullptr) {
    return Status::kFailed;
  }
  ScatterArgs args{};
  args.lines = 1;
  args.length = count;
  args.index_step = 1;
  args.out_step = 1;
  args.out_length = 1;
  bool first = true;
  for (size_t d = 0; d < indices.by_dim.size(); ++d) {
    if (indices.by_dim[d] != nullptr) {
      AOTIP_RETURN_IF_FAILED(add_dim(out, indices, layout, d, first, *places, *sources));
      const int64_t dim = static_cast<int64_t>(d);
      args.out_length += (out.size(dim) - 1) * out.stride(dim);
      first = false;
    }
  }
  for (size_t i = layout.free_dims.size(); i-- > 0;) {
    const int64_t dim = layout.free_dims[i];
    args.sizes[args.ndim] = out.size(dim);
    args.out_start[args.ndim] = out.stride(dim);
    args.src_start[args.ndim] = layout.value_strides[layout.free_place(i, indices.sizes.size())];
    args.lines *= out.size(dim);
    ++args.ndim;
  }
  return scatter_lines(out, *places, {&values, sources.get()}, args,
                       accumulate ? Combine::kSum : Combine::kWrite);
}

Status index_put(Tensor& out, const Tensor& self, const Tensor* const* tensors, uint32_t count,
                 const Tensor& values, bool accumulate) {
  AOTIP_CHECK(Operators::computes(self.dtype()), "no index_put for %s on mps",
              dtype_name(self.dtype()));
  Indices indices;
  AOTIP_RETURN_IF_FAILED(read_indices(self, tensors, count, &indices));
  Layout layout;
  AOTIP_RETURN_IF_FAILED(make_layout(self, indices, values, &layout));
  if (out.data() != self.data()) {
    AOTIP_RETURN_IF_FAILED(mps_device().copy(out, self));
  }
  const bool empty =
      out.numel() == 0 || values.numel() == 0 ||
      std::find(indices.sizes.begin(), indices.sizes.end(), 0) != indices.sizes.end();
  return empty ? Status::kOk : write(out, indices, layout, values, accumulate);
}

[[maybe_unused]] const bool registered = (ops::register_index_put(kMps, index_put), true);

}  // namespace
}  // namespace aoti_plugins::mps
