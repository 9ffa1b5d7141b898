#include <algorithm>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/lines.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"

namespace aoti_plugins::mps {
namespace {

/// The most pairs of a key and a place that a group sorts in its own memory.
constexpr int64_t kShared = 1024;

/// The longest line: places are 32 bits, and so are the numbers of couples.
constexpr int64_t kMaxLength = int64_t{1} << 31;

/// One call, after all checks.
struct Sort {
  const Tensor& self;
  const Tensor& values;
  const Tensor& places;
  LinesArgs lines;
  SortArgs args;
  std::string defines;

  const Kernel* kernel(const char* function) const {
    return find_kernel(metal_sort, function, defines);
  }
};

size_t threads_of(const Kernel* kernel, size_t wanted) {
  return kernel != nullptr ? std::max<size_t>(std::min(max_threads(*kernel), wanted), 1) : 1;
}

/// Runs a kernel with a thread for each of `width` elements of every line.
Status run_elements(const Kernel* kernel, Launch& launch, int64_t width, int64_t lines) {
  const size_t threads = threads_of(kernel, 256);
  return launch.threads({static_cast<size_t>(width), static_cast<size_t>(lines)}, {threads});
}

Status sort_short(const Sort& s) {
  const Kernel* kernel = s.kernel("sort_lines");
  const size_t threads =
      threads_of(kernel, static_cast<size_t>(std::min<int64_t>(s.args.padded / 2, 256)));
  Launch launch(kernel);
  return launch.tensor(s.values)
      .tensor(s.places)
      .tensor(s.self)
      .value(s.args)
      .value(s.lines)
      .groups({static_cast<size_t>(s.lines.count)}, {threads});
}

/// All steps of one run that stay within a group's memory; with `run` 0 those of all short runs.
Status merge(const Sort& s, const Tensor& keys, const Tensor& pairs, int64_t run) {
  const Kernel* kernel = s.kernel("sort_merge");
  SortArgs args = s.args;
  args.run = run;
  Launch launch(kernel);
  return launch.tensor(keys).tensor(pairs).value(args).groups(
      {static_cast<size_t>(s.args.padded / kShared), static_cast<size_t>(s.lines.count)},
      {threads_of(kernel, 256)});
}

Status step(const Sort& s, const Tensor& keys, const Tensor& pairs, int64_t run, int64_t reach) {
  const Kernel* kernel = s.kernel("sort_step");
  SortArgs args = s.args;
  args.run = run;
  args.reach = reach;
  Launch launch(kernel);
  launch.tensor(keys).tensor(pairs).value(args);
  return run_elements(kernel, launch, s.args.padded / 2, s.lines.count);
}

Status sort_long(const Sort& s) {
  const int64_t total = s.lines.count * s.args.padded;
  const bool wide = s.self.itemsize() == 8;
  const Device device = s.self.device();
  const OwnedTensor keys(Tensor::empty(1, &total, wide ? kInt64 : kInt32, device));
  const OwnedTensor pairs(Tensor::empty(1, &total, kInt32, device));
  if (keys == nullptr || pairs == nullptr) {
    return Status::kFailed;
  }
  const Kernel* load = s.kernel("sort_load");
  {
    Launch launch(load);
    launch.tensor(*keys).tensor(*pairs).tensor(s.self).value(s.args).value(s.lines);
    AOTIP_RETURN_IF_FAILED(run_elements(load, launch, s.args.padded, s.lines.count));
  }
  AOTIP_RETURN_IF_FAILED(merge(s, *keys, *pairs, 0));
  for (int64_t run = 2 * kShared; run <= s.args.padded; run *= 2) {
    for (int64_t reach = run / 2; reach >= kShared; reach /= 2) {
      AOTIP_RETURN_IF_FAILED(step(s, *keys, *pairs, run, reach));
    }
    AOTIP_RETURN_IF_FAILED(merge(s, *keys, *pairs, run));
  }
  const Kernel* store = s.kernel("sort_store");
  Launch launch(store);
  launch.tensor(s.values).tensor(s.places).tensor(s.self).tensor(*pairs).value(s.args).value(
      s.lines);
  return run_elements(store, launch, s.args.count, s.lines.count);
}

}  // namespace

Status Operators::sort_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                             int64_t count, bool descending) {
  const int32_t dtype = self.dtype();
  const bool real = is_real(dtype);
  Sort s{self, values, places, {}, {}, {}};
  const Tensor* const tensors[] = {&values, &places, &self};
  AOTIP_RETURN_IF_FAILED(make_lines(tensors, 3, dim, &s.lines));
  AOTIP_CHECK(s.lines.length <= kMaxLength, "lines of %lld elements, at most %lld are sorted",
              static_cast<long long>(s.lines.length), static_cast<long long>(kMaxLength));
  s.args.count = count;
  s.args.padded = 2;
  while (s.args.padded < s.lines.length) {
    s.args.padded *= 2;
  }
  s.defines = define("T", metal_type(dtype)) + define("KEY", dtype == kInt64 ? "ulong" : "uint") +
              define("REAL", real ? 1 : 0) + define("DESCENDING", descending ? 1 : 0) +
              define("SHARED", kShared);
  return s.args.padded <= kShared ? sort_short(s) : sort_long(s);
}

}  // namespace aoti_plugins::mps
