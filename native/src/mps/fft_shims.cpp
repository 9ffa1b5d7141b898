// Fourier transforms: real to complex, and complex to complex.

#include <aoti_plugins/mps_op_shims.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "mps/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/lines.h"
#include "mps/metal_types.h"
#include "shim/run_shim.h"
#include "shim/wrap_dim.h"

using namespace aoti_plugins;

namespace {

/// PyTorch's numbers of what a transform is divided by.
enum Normalization : int64_t { kNone = 0, kByRoot = 1, kByLength = 2 };

/// The factors of the passes: fours, then primes.
std::vector<int64_t> factors_of(int64_t length) {
  std::vector<int64_t> factors;
  for (; length % 4 == 0; length /= 4) {
    factors.push_back(4);
  }
  for (int64_t prime = 2; prime * prime <= length; ++prime) {
    for (; length % prime == 0; length /= prime) {
      factors.push_back(prime);
    }
  }
  if (length > 1) {
    factors.push_back(length);
  }
  return factors;
}

/// Runs a kernel with a thread for each of `width` elements of every line.
Status run_elements(const mps::Kernel* kernel, mps::Launch& launch, int64_t width, int64_t lines) {
  const size_t limit = kernel != nullptr ? std::min<size_t>(mps::max_threads(*kernel), 256) : 1;
  return launch.threads({static_cast<size_t>(width), static_cast<size_t>(lines)}, {limit});
}

/// Transforms the lines of `from`, real or complex, along `dim`; writes the first elements of each
/// into those of `out`, which may be `from`.
Status transform(const Tensor& from, const Tensor& out, int64_t dim, float direction, float scale) {
  mps::LinesArgs source;
  mps::LinesArgs target;
  const Tensor* const from_lines[] = {&from};
  const Tensor* const out_lines[] = {&out};
  AOTIP_RETURN_IF_FAILED(mps::make_lines(from_lines, 1, dim, &source));
  AOTIP_RETURN_IF_FAILED(mps::make_lines(out_lines, 1, dim, &target));
  const int64_t sizes[] = {source.count, source.length};
  OwnedTensor in(Tensor::empty(2, sizes, kComplex64, out.device()));
  OwnedTensor next(Tensor::empty(2, sizes, kComplex64, out.device()));
  if (in == nullptr || next == nullptr) {
    return Status::kFailed;
  }
  const std::string defines = mps::define("FROM", from.dtype() == kFloat32 ? "float" : "float2");
  {
    const mps::Kernel* kernel = mps::find_kernel(mps::metal_fft, "fft_load", defines);
    mps::Launch launch(kernel);
    launch.tensor(*in).tensor(from).value(source);
    AOTIP_RETURN_IF_FAILED(run_elements(kernel, launch, source.length, source.count));
  }
  mps::FftArgs args{source.length, 1, 1, direction, scale};
  for (const int64_t factor : factors_of(source.length)) {
    args.factor = factor;
    const mps::Kernel* kernel = mps::find_kernel(mps::metal_fft, "fft_pass", defines);
    mps::Launch launch(kernel);
    launch.tensor(*next).tensor(*in).value(args);
    AOTIP_RETURN_IF_FAILED(run_elements(kernel, launch, source.length, source.count));
    args.done *= factor;
    std::swap(in, next);
  }
  const mps::Kernel* kernel = mps::find_kernel(mps::metal_fft, "fft_store", defines);
  mps::Launch launch(kernel);
  launch.tensor(out).tensor(*in).value(args).value(target);
  return run_elements(kernel, launch, target.length, target.count);
}

/// What is asked of a transform, checked. Dims are the last ones of a row-major tensor: only then
/// do all builds of PyTorch agree on the strides of the result, which are row-major here.
struct Plan {
  std::vector<int64_t> dims;
  double scale = 1.0;
};

Status make_plan(const Tensor& self, const int64_t* dim, int64_t count, int64_t normalization,
                 Plan* plan) {
  AOTIP_RETURN_IF_FAILED(mps::check_on_mps(self, "self"));
  AOTIP_CHECK(count >= 1 && dim != nullptr, "there is no dim to transform");
  AOTIP_CHECK(self.is_contiguous(), "self is not row-major");
  double numel = 1.0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t wrapped = 0;
    AOTIP_RETURN_IF_FAILED(wrap_dim(self, dim[i], &wrapped));
    AOTIP_CHECK(self.ndim() > 0 && self.size(wrapped) > 0, "dim %lld has no elements",
                static_cast<long long>(wrapped));
    AOTIP_CHECK(std::find(plan->dims.begin(), plan->dims.end(), wrapped) == plan->dims.end(),
                "dim %lld is named twice", static_cast<long long>(wrapped));
    plan->dims.push_back(wrapped);
    numel *= static_cast<double>(self.size(wrapped));
  }
  const int64_t least = *std::min_element(plan->dims.begin(), plan->dims.end());
  AOTIP_CHECK(least == self.ndim() - count, "the dims are not the last %lld of %lld",
              static_cast<long long>(count), static_cast<long long>(self.ndim()));
  AOTIP_CHECK(normalization >= kNone && normalization <= kByLength, "normalization is %lld",
              static_cast<long long>(normalization));
  plan->scale = normalization == kByLength ? 1.0 / numel
                : normalization == kByRoot ? 1.0 / std::sqrt(numel)
                                           : 1.0;
  return Status::kOk;
}

/// Transforms the last of the dims from `self` into `out`, and then the others in place.
Status run(const Tensor& self, const Tensor& out, const Plan& plan, bool forward) {
  const float direction = forward ? -1.0f : 1.0f;
  AOTIP_RETURN_IF_FAILED(
      transform(self, out, plan.dims.back(), direction, static_cast<float>(plan.scale)));
  for (size_t i = plan.dims.size() - 1; i-- > 0;) {
    AOTIP_RETURN_IF_FAILED(transform(out, out, plan.dims[i], direction, 1.0f));
  }
  return Status::kOk;
}

Status fft(AtenTensorHandle self, const int64_t* dim, int64_t count, int64_t normalization,
           bool real, bool onesided, bool forward, AtenTensorHandle* ret0) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_ARG(ret0);
  const Tensor& t = *unwrap(self);
  const int32_t expected = real ? kFloat32 : kComplex64;
  AOTIP_CHECK(t.dtype() == expected, "no transform of %s on mps, expected %s",
              dtype_name(t.dtype()), dtype_name(expected));
  Plan plan;
  AOTIP_RETURN_IF_FAILED(make_plan(t, dim, count, normalization, &plan));
  int64_t sizes[Tensor::kMaxDims];
  std::copy(t.sizes(), t.sizes() + t.ndim(), sizes);
  int64_t& last = sizes[plan.dims.back()];
  last = onesided ? last / 2 + 1 : last;
  OwnedTensor out(Tensor::empty(t.ndim(), sizes, kComplex64, t.device()));
  if (out == nullptr) {
    return Status::kFailed;
  }
  if (out->numel() > 0) {
    AOTIP_RETURN_IF_FAILED(run(t, *out, plan, forward));
  }
  *ret0 = wrap(out.release());
  return Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_mps__fft_r2c(AtenTensorHandle self, const int64_t* dim, int64_t dim_len_,
                                       int64_t normalization, int32_t onesided,
                                       AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    return fft(self, dim, dim_len_, normalization, true, onesided != 0, true, ret0);
  });
}

AOTITorchError aoti_torch_mps__fft_c2c(AtenTensorHandle self, const int64_t* dim, int64_t dim_len_,
                                       int64_t normalization, int32_t forward,
                                       AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    return fft(self, dim, dim_len_, normalization, false, false, forward != 0, ret0);
  });
}
