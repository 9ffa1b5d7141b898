// Fourier transforms: real to complex, and complex to complex.

#include <algorithm>
#include <vector>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/lines.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"

namespace aoti_plugins::mps {
namespace {

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
Status run_elements(const Kernel* kernel, Launch& launch, int64_t width, int64_t lines) {
  const size_t limit = kernel != nullptr ? std::min<size_t>(max_threads(*kernel), 256) : 1;
  return launch.threads({static_cast<size_t>(width), static_cast<size_t>(lines)}, {limit});
}

/// Transforms the lines of `from`, real or complex, along `dim`; writes the first elements of each
/// into those of `out`, which may be `from`.
Status transform(const Tensor& from, const Tensor& out, int64_t dim, float direction, float scale) {
  LinesArgs source;
  LinesArgs target;
  const Tensor* const from_lines[] = {&from};
  const Tensor* const out_lines[] = {&out};
  AOTIP_RETURN_IF_FAILED(make_lines(from_lines, 1, dim, &source));
  AOTIP_RETURN_IF_FAILED(make_lines(out_lines, 1, dim, &target));
  const int64_t sizes[] = {source.count, source.length};
  OwnedTensor in(Tensor::empty(2, sizes, kComplex64, out.device()));
  OwnedTensor next(Tensor::empty(2, sizes, kComplex64, out.device()));
  if (in == nullptr || next == nullptr) {
    return Status::kFailed;
  }
  const std::string defines = define("FROM", from.dtype() == kFloat32 ? "float" : "float2");
  {
    const Kernel* kernel = find_kernel(metal_fft, "fft_load", defines);
    Launch launch(kernel);
    launch.tensor(*in).tensor(from).value(source);
    AOTIP_RETURN_IF_FAILED(run_elements(kernel, launch, source.length, source.count));
  }
  FftArgs args{source.length, 1, 1, direction, scale};
  for (const int64_t factor : factors_of(source.length)) {
    args.factor = factor;
    const Kernel* kernel = find_kernel(metal_fft, "fft_pass", defines);
    Launch launch(kernel);
    launch.tensor(*next).tensor(*in).value(args);
    AOTIP_RETURN_IF_FAILED(run_elements(kernel, launch, source.length, source.count));
    args.done *= factor;
    std::swap(in, next);
  }
  const Kernel* kernel = find_kernel(metal_fft, "fft_store", defines);
  Launch launch(kernel);
  launch.tensor(out).tensor(*in).value(args).value(target);
  return run_elements(kernel, launch, target.length, target.count);
}

}  // namespace

Status Operators::check_fft(const Tensor& self, int64_t) {
  AOTIP_CHECK(self.dtype() == kFloat32 || self.dtype() == kComplex64, "no transform of %s on mps",
              dtype_name(self.dtype()));
  return Status::kOk;
}

/// Transforms the last of the dims from `self` into `out`, and then the others in place.
Status Operators::fft(const Tensor& self, Tensor& out, const FftPlan& plan, bool, bool,
                      bool forward) {
  const float direction = forward ? -1.0f : 1.0f;
  AOTIP_RETURN_IF_FAILED(
      transform(self, out, plan.dims.back(), direction, static_cast<float>(plan.scale)));
  for (size_t i = plan.dims.size() - 1; i-- > 0;) {
    AOTIP_RETURN_IF_FAILED(transform(out, out, plan.dims[i], direction, 1.0f));
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
