#include "cuda/sort.h"

#include <algorithm>

#include "cuda/device_kernels.h"
#include "cuda/lines.h"

namespace aoti_plugins::cuda {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 31;
constexpr unsigned int kMaxThreads = 512;

bool has_order(int32_t dtype) {
  return is_integer(dtype) || is_real(dtype) || dtype == kUInt16 || dtype == kUInt32 ||
         dtype == kUInt64;
}

/// One sort: the arguments of its kernels.
struct Sort {
  int32_t gpu;
  void* values;
  void* places;
  const void* from;
  int32_t dtype;
  int32_t itemsize;
  int32_t descending;
  int64_t count;
  int64_t padded;
  Lines lines;
};

Status sort_short(Sort& s) {
  const unsigned int threads =
      static_cast<unsigned int>(std::clamp<int64_t>(s.padded / 2, 32, kMaxThreads));
  void* arguments[] = {&s.values,     &s.places, &s.from,   &s.dtype, &s.itemsize,
                       &s.descending, &s.count,  &s.padded, &s.lines};
  return launch_blocks(s.gpu, "aotip_sort_lines", s.lines.count, threads, arguments);
}

/// Sorts all runs of up to kSortShared pairs, or ends a step of longer ones.
Status merge(Sort& s, void* keys, void* pairs, int64_t first_run, int64_t last_run) {
  int64_t total = s.lines.count * s.padded;
  void* arguments[] = {&keys, &pairs, &total, &s.padded, &first_run, &last_run};
  return launch_blocks(s.gpu, "aotip_sort_merge", total / kSortShared, kMaxThreads, arguments);
}

Status sort_long(Sort& s) {
  int64_t total = s.lines.count * s.padded;
  const Device device{kCuda, s.gpu};
  const OwnedTensor key_memory(Tensor::empty(1, &total, kUInt64, device));
  if (key_memory == nullptr) {
    return Status::kFailed;
  }
  const OwnedTensor place_memory(Tensor::empty(1, &total, kUInt32, device));
  if (place_memory == nullptr) {
    return Status::kFailed;
  }
  void* keys = key_memory->data();
  void* pairs = place_memory->data();
  void* load[] = {&keys, &pairs, &s.from, &s.dtype, &s.descending, &s.padded, &s.lines};
  AOTIP_RETURN_IF_FAILED(launch_elements(s.gpu, "aotip_sort_load", total, load));
  AOTIP_RETURN_IF_FAILED(merge(s, keys, pairs, 2, kSortShared));
  for (int64_t run = 2 * kSortShared; run <= s.padded; run *= 2) {
    for (int64_t reach = run / 2; reach >= kSortShared; reach /= 2) {
      void* step[] = {&keys, &pairs, &total, &s.padded, &run, &reach};
      AOTIP_RETURN_IF_FAILED(launch_elements(s.gpu, "aotip_sort_step", total / 2, step));
    }
    AOTIP_RETURN_IF_FAILED(merge(s, keys, pairs, run, run));
  }
  void* store[] = {&s.values, &s.places, &s.from,   &s.itemsize,
                   &pairs,    &s.count,  &s.padded, &s.lines};
  return launch_elements(s.gpu, "aotip_sort_store", s.lines.count * s.count, store);
}

}  // namespace

Status sort_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim, int64_t count,
                  bool descending) noexcept {
  AOTIP_CHECK(has_order(self.dtype()), "%s has no order", dtype_name(self.dtype()));
  if (values.numel() == 0) {
    return Status::kOk;
  }
  Sort sort{};
  const Tensor* const tensors[] = {&values, &places, &self};
  AOTIP_RETURN_IF_FAILED(make_lines(tensors, 3, dim, &sort.lines));
  AOTIP_CHECK(sort.lines.length <= kMaxLength, "lines of %lld elements, at most %lld are sorted",
              static_cast<long long>(sort.lines.length), static_cast<long long>(kMaxLength));
  sort.gpu = self.device().index;
  sort.values = values.data();
  sort.places = places.data();
  sort.from = self.data();
  sort.dtype = self.dtype();
  sort.itemsize = static_cast<int32_t>(self.itemsize());
  sort.descending = descending ? 1 : 0;
  sort.count = count;
  sort.padded = 2;
  while (sort.padded < sort.lines.length) {
    sort.padded *= 2;
  }
  return sort.padded <= kSortShared ? sort_short(sort) : sort_long(sort);
}

}  // namespace aoti_plugins::cuda
