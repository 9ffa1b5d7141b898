// sort and topk: the values of each line in order, with their places.

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "cpu/ops/lines.h"
#include "shim/run_shim.h"
#include "shim/wrap_dim.h"
#include "slim/element.h"

using namespace aoti_plugins;

namespace {

struct Destroy {
  void operator()(Tensor* tensor) const { Tensor::destroy(tensor); }
};
using Owned = std::unique_ptr<Tensor, Destroy>;

template <typename T>
struct Entry {
  T key;
  int64_t place;
};

template <typename T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a < b || (std::isnan(b) && !std::isnan(a));  // NaN is above everything
  } else {
    return a < b;
  }
}

/// Puts the `count` first entries of a line in order, earlier places first among equals.
template <typename T>
void order(std::vector<Entry<T>>& entries, int64_t count, bool descending) {
  const auto before = [descending](const Entry<T>& a, const Entry<T>& b) {
    if (less(a.key, b.key) || less(b.key, a.key)) {
      return descending ? less(b.key, a.key) : less(a.key, b.key);
    }
    return a.place < b.place;
  };
  if (count == static_cast<int64_t>(entries.size())) {
    std::sort(entries.begin(), entries.end(), before);
  } else {
    std::partial_sort(entries.begin(), entries.begin() + count, entries.end(), before);
  }
}

template <typename T>
void sort_lines(Tensor& self, Tensor& values, Tensor& places, int64_t dim, int64_t count,
                bool descending) {
  const int64_t length = self.ndim() > 0 ? self.size(dim) : 1;
  const size_t itemsize = self.itemsize();
  std::vector<Entry<T>> entries(static_cast<size_t>(length));
  Tensor* const all[3] = {&self, &values, &places};
  cpu::for_each_line(all, dim, [&](const cpu::Line(&lines)[3]) {
    for (int64_t i = 0; i < length; ++i) {
      const Element e = load_element(lines[0].data + i * lines[0].step, self.dtype());
      entries[static_cast<size_t>(i)] = {
          std::is_floating_point_v<T> ? static_cast<T>(e.real) : static_cast<T>(e.integer), i};
    }
    order(entries, count, descending);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = entries[static_cast<size_t>(i)].place;
      std::copy_n(lines[0].data + place * lines[0].step, itemsize,
                  lines[1].data + i * lines[1].step);
      *reinterpret_cast<int64_t*>(lines[2].data + i * lines[2].step) = place;
    }
  });
}

Status run(Tensor& self, Tensor& values, Tensor& places, int64_t dim, int64_t count,
           bool descending) {
  if (values.numel() == 0) {
    return Status::kOk;
  }
  const int32_t dtype = self.dtype();
  if (is_real(dtype)) {
    sort_lines<double>(self, values, places, dim, count, descending);
  } else if (dtype == kUInt64) {
    sort_lines<uint64_t>(self, values, places, dim, count, descending);
  } else if (is_integer(dtype) || dtype == kUInt16 || dtype == kUInt32) {
    sort_lines<int64_t>(self, values, places, dim, count, descending);
  } else {
    return fail("%s has no order", dtype_name(dtype));
  }
  return Status::kOk;
}

Status check(AtenTensorHandle self, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_ARG(ret0);
  AOTIP_CHECK_ARG(ret1);
  AOTIP_CHECK(unwrap(self)->device().type == kCpu, "self is on %s, expected cpu",
              device_type_name(unwrap(self)->device().type));
  return Status::kOk;
}

Status sort(AtenTensorHandle self, int64_t dim, bool descending, AtenTensorHandle* ret0,
            AtenTensorHandle* ret1) {
  AOTIP_RETURN_IF_FAILED(check(self, ret0, ret1));
  Tensor& t = *unwrap(self);
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  int64_t strides[Tensor::kMaxDims];
  dense_strides(t, strides);
  Owned values(Tensor::empty_strided(t.ndim(), t.sizes(), strides, t.dtype(), Device{}));
  Owned places(Tensor::empty_strided(t.ndim(), t.sizes(), strides, kInt64, Device{}));
  if (values == nullptr || places == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(run(t, *values, *places, dim, t.ndim() > 0 ? t.size(dim) : 1, descending));
  *ret0 = wrap(values.release());
  *ret1 = wrap(places.release());
  return Status::kOk;
}

Status topk(AtenTensorHandle self, int64_t k, int64_t dim, bool largest, AtenTensorHandle* ret0,
            AtenTensorHandle* ret1) {
  AOTIP_RETURN_IF_FAILED(check(self, ret0, ret1));
  Tensor& t = *unwrap(self);
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  const int64_t length = t.ndim() > 0 ? t.size(dim) : 1;
  AOTIP_CHECK(k >= 0 && k <= length, "k is %lld, expected 0 to %lld", static_cast<long long>(k),
              static_cast<long long>(length));
  int64_t sizes[Tensor::kMaxDims];
  std::copy(t.sizes(), t.sizes() + t.ndim(), sizes);
  if (t.ndim() > 0) {
    sizes[dim] = k;
  }
  Owned values(Tensor::empty(t.ndim(), sizes, t.dtype(), Device{}));
  Owned places(Tensor::empty(t.ndim(), sizes, kInt64, Device{}));
  if (values == nullptr || places == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(run(t, *values, *places, dim, k, largest));
  *ret0 = wrap(values.release());
  *ret1 = wrap(places.release());
  return Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_cpu_sort(AtenTensorHandle self, int64_t dim, int32_t descending,
                                   AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  return run_shim(__func__, [&] { return sort(self, dim, descending != 0, ret0, ret1); });
}

AOTITorchError aoti_torch_cpu_sort_stable(AtenTensorHandle self, int32_t* stable, int64_t dim,
                                          int32_t descending, AtenTensorHandle* ret0,
                                          AtenTensorHandle* ret1) {
  (void)stable;  // it always is
  return run_shim(__func__, [&] { return sort(self, dim, descending != 0, ret0, ret1); });
}

AOTITorchError aoti_torch_cpu_topk(AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest,
                                   int32_t sorted, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  (void)sorted;  // it always is
  return run_shim(__func__, [&] { return topk(self, k, dim, largest != 0, ret0, ret1); });
}
