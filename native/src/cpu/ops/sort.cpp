// sort and topk: the values of each line in order, with their places.

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/ops/lines.h"
#include "cpu/ops/operators.h"
#include "slim/element.h"

namespace aoti_plugins::cpu {
namespace {

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
void sort_all(const Tensor& self, Tensor& values, Tensor& places, int64_t dim, int64_t count,
              bool descending) {
  const int64_t length = self.ndim() > 0 ? self.size(dim) : 1;
  const size_t itemsize = self.itemsize();
  std::vector<Entry<T>> entries(static_cast<size_t>(length));
  const Tensor* const all[3] = {&self, &values, &places};
  for_each_line(all, dim, [&](const Line(&lines)[3]) {
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

}  // namespace

Status Operators::sort_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                             int64_t count, bool descending) {
  const int32_t dtype = self.dtype();
  if (is_real(dtype)) {
    sort_all<double>(self, values, places, dim, count, descending);
  } else if (dtype == kUInt64) {
    sort_all<uint64_t>(self, values, places, dim, count, descending);
  } else {
    sort_all<int64_t>(self, values, places, dim, count, descending);
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
