// scatter: elements written, or combined, where an index tensor says.

#include <algorithm>
#include <limits>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"
#include "mps/ops/scatter_lines.h"

namespace aoti_plugins::mps {

Status Operators::scatter_pass(const ops::Scatter& s, Tensor& out, const Tensor* src, double value,
                               Combine combine) {
  const Tensor& index = *s.index;
  const bool has_dims = out.ndim() > 0;
  ScatterArgs args{};
  args.lines = 1;
  args.length = has_dims ? index.size(s.dim) : 1;
  args.index_step = has_dims ? index.stride(s.dim) : 0;
  args.src_step = has_dims && src != nullptr ? src->stride(s.dim) : 0;
  args.out_step = has_dims ? out.stride(s.dim) : 0;
  args.out_length = has_dims ? out.size(s.dim) : 1;
  args.value = static_cast<float>(value);
  args.int_value = is_real(out.dtype()) ? 0 : static_cast<int64_t>(value);
  for (int64_t d = out.ndim() - 1; d >= 0; --d) {
    if (d == s.dim) {
      continue;
    }
    args.sizes[args.ndim] = index.size(d);
    args.index_start[args.ndim] = index.stride(d);
    args.src_start[args.ndim] = src != nullptr ? src->stride(d) : 0;
    args.out_start[args.ndim] = out.stride(d);
    args.lines *= index.size(d);
    ++args.ndim;
  }
  return scatter_lines(out, index, {src, nullptr}, args, combine);
}

Status Operators::fill_counts(Tensor& counts, int32_t number) {
  const Kernel* kernel =
      find_kernel(metal_scatter, "scatter_begin_counts",
                  define("T", "int") + define("REAL", 0) + define("COMBINE", 0) + define("SRC", 0));
  const size_t threads = kernel != nullptr ? std::min<size_t>(max_threads(*kernel), 256) : 1;
  Launch launch(kernel);
  return launch.tensor(counts).value(number).threads({static_cast<size_t>(counts.numel())},
                                                     {threads});
}

Status Operators::divide(Tensor& out, const Tensor& counts) {
  AOTIP_CHECK(out.numel() <= std::numeric_limits<uint32_t>::max(), "%lld elements are too many",
              static_cast<long long>(out.numel()));
  ScatterArgs args{};
  for (int64_t d = out.ndim() - 1; d >= 0; --d) {
    args.sizes[args.ndim] = out.size(d);
    args.out_start[args.ndim] = out.stride(d);
    ++args.ndim;
  }
  const Kernel* kernel = find_kernel(metal_scatter, "scatter_divide",
                                     define("T", metal_type(out.dtype())) +
                                         define("REAL", is_real(out.dtype()) ? 1 : 0) +
                                         define("COMBINE", 0) + define("SRC", 0));
  const size_t threads = kernel != nullptr ? std::min<size_t>(max_threads(*kernel), 256) : 1;
  Launch launch(kernel);
  return launch.tensor(out).tensor(counts).value(args).threads({static_cast<size_t>(out.numel())},
                                                               {threads});
}

}  // namespace aoti_plugins::mps
