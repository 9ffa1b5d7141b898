// scatter: elements written, or combined, where an index tensor says.

#include <aoti_plugins/mps_op_shims.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/scatter.h"
#include "mps/session/mps_device.h"
#include "shim/run_shim.h"
#include "shim/scatter.h"

using namespace aoti_plugins;
using aoti_plugins::mps::Combine;

namespace {

Status check(const Scatter& s) {
  const int32_t dtype = s.out->dtype();
  AOTIP_RETURN_IF_FAILED(mps::check_on_mps(*s.out, "out"));
  AOTIP_RETURN_IF_FAILED(mps::check_on_mps(*s.self, "self"));
  AOTIP_RETURN_IF_FAILED(mps::check_on_mps(*s.index, "index"));
  if (s.src != nullptr) {
    AOTIP_RETURN_IF_FAILED(mps::check_on_mps(*s.src, "src"));
  }
  AOTIP_CHECK(is_integer(dtype) || (is_real(dtype) && dtype != kFloat64),
              "no scatter for %s on mps", dtype_name(dtype));
  return check_scatter(s, LINES_DIMS);
}

/// One pass over the index into `out`; a null `src` stands for `value`.
Status launch(const Scatter& s, const Tensor& out, const Tensor* src, double value,
              Combine combine) {
  const Tensor& index = *s.index;
  const bool has_dims = out.ndim() > 0;
  mps::ScatterArgs args{};
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
  return mps::run_scatter(out, index, {src, nullptr}, args, combine);
}

/// Makes out what scatter starts from. Its old elements are gone from here on.
Status begin(const Scatter& s) {
  return s.out->data() != s.self->data() ? mps::mps_device().copy(*s.out, *s.self) : Status::kOk;
}

Status write(const Scatter& s) {
  AOTIP_RETURN_IF_FAILED(begin(s));
  return s.index->numel() > 0 && s.out->numel() > 0
             ? launch(s, *s.out, s.src, s.value, Combine::kWrite)
             : Status::kOk;
}

Status begin_counts(const Tensor& counts, int32_t first) {
  const mps::Kernel* kernel =
      mps::find_kernel(mps::metal_scatter, "scatter_begin_counts",
                       mps::define("T", "int") + mps::define("REAL", 0) +
                           mps::define("COMBINE", 0) + mps::define("SRC", 0));
  const size_t threads = kernel != nullptr ? std::min<size_t>(mps::max_threads(*kernel), 256) : 1;
  mps::Launch launch(kernel);
  return launch.tensor(counts).value(first).threads({static_cast<size_t>(counts.numel())},
                                                    {threads});
}

/// Divides each place by how many elements met there.
Status divide_by_counts(const Scatter& s, bool include_self) {
  const Tensor& out = *s.out;
  AOTIP_CHECK(out.numel() <= std::numeric_limits<uint32_t>::max(), "%lld elements are too many",
              static_cast<long long>(out.numel()));
  const OwnedTensor counts(Tensor::empty(out.ndim(), out.sizes(), kInt32, out.device()));
  if (counts == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(begin_counts(*counts, include_self ? 1 : 0));
  AOTIP_RETURN_IF_FAILED(launch(s, *counts, nullptr, 1.0, Combine::kSum));
  mps::ScatterArgs args{};
  for (int64_t d = out.ndim() - 1; d >= 0; --d) {
    args.sizes[args.ndim] = out.size(d);
    args.out_start[args.ndim] = out.stride(d);
    ++args.ndim;
  }
  const mps::Kernel* kernel =
      mps::find_kernel(mps::metal_scatter, "scatter_divide",
                       mps::define("T", mps::metal_type(out.dtype())) +
                           mps::define("REAL", is_real(out.dtype()) ? 1 : 0) +
                           mps::define("COMBINE", 0) + mps::define("SRC", 0));
  const size_t threads = kernel != nullptr ? std::min<size_t>(mps::max_threads(*kernel), 256) : 1;
  mps::Launch launch(kernel);
  return launch.tensor(out).tensor(*counts).value(args).threads({static_cast<size_t>(out.numel())},
                                                                {threads});
}

Status reduce(const Scatter& s, Combine combine, bool mean, bool include_self) {
  AOTIP_RETURN_IF_FAILED(begin(s));
  if (s.index->numel() == 0 || s.out->numel() == 0) {
    return Status::kOk;
  }
  if (!include_self) {
    // Any one of the elements that meet at a place does not change their extreme.
    const bool extreme = combine == Combine::kMax || combine == Combine::kMin;
    AOTIP_RETURN_IF_FAILED(launch(s, *s.out, extreme ? s.src : nullptr,
                                  combine == Combine::kProd ? 1.0 : 0.0, Combine::kWrite));
  }
  AOTIP_RETURN_IF_FAILED(launch(s, *s.out, s.src, 0.0, combine));
  return mean ? divide_by_counts(s, include_self) : Status::kOk;
}

Status scatter(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
               AtenTensorHandle src, double value, Scatter* ret) {
  AOTIP_RETURN_IF_FAILED(read_scatter(out, self, dim, index, src, value, ret));
  return check(*ret);
}

Status scatter_reduce(const Scatter& s, const char* name, bool include_self) {
  AOTIP_CHECK(name != nullptr, "reduce is null");
  const std::pair<const char*, Combine> names[] = {
      {"sum", Combine::kSum},  {"prod", Combine::kProd}, {"mean", Combine::kSum},
      {"amax", Combine::kMax}, {"amin", Combine::kMin},
  };
  for (const auto& [known, combine] : names) {
    if (std::strcmp(name, known) == 0) {
      return reduce(s, combine, std::strcmp(name, "mean") == 0, include_self);
    }
  }
  return fail("reduce is '%s', expected sum, prod, mean, amax or amin", name);
}

}  // namespace

AOTITorchError aoti_torch_mps_scatter_src_out(AtenTensorHandle out, AtenTensorHandle self,
                                              int64_t dim, AtenTensorHandle index,
                                              AtenTensorHandle src) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(src);
    Scatter s{};
    AOTIP_RETURN_IF_FAILED(scatter(out, self, dim, index, src, 0.0, &s));
    return write(s);
  });
}

AOTITorchError aoti_torch_mps_scatter_value_out(AtenTensorHandle out, AtenTensorHandle self,
                                                int64_t dim, AtenTensorHandle index, double value) {
  return run_shim(__func__, [&] {
    Scatter s{};
    AOTIP_RETURN_IF_FAILED(scatter(out, self, dim, index, nullptr, value, &s));
    return write(s);
  });
}

AOTITorchError aoti_torch_mps_scatter_reduce_two_out(AtenTensorHandle out, AtenTensorHandle self,
                                                     int64_t dim, AtenTensorHandle index,
                                                     AtenTensorHandle src, const char* reduce,
                                                     int32_t include_self) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(src);
    Scatter s{};
    AOTIP_RETURN_IF_FAILED(scatter(out, self, dim, index, src, 0.0, &s));
    return scatter_reduce(s, reduce, include_self != 0);
  });
}
