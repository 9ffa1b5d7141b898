// Fourier transforms over cuFFT: real to complex, and complex to complex.

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/libraries/cufft.h"
#include "cuda/memory/workspace.h"
#include "cuda/ops/operators.h"

namespace aoti_plugins::cuda {
namespace {

using fft::Direction;
using fft::PlanScope;
using fft::Shape;

// What cuFFT asks of an address: that of a whole complex element.
constexpr uintptr_t kAlignment = 16;

bool is_wide(const Tensor& t) {
  return t.dtype() == kFloat64 || t.dtype() == kComplex128;
}

Shape shape_of(const Tensor& from, const FftPlan& plan, bool real) {
  Shape shape;
  shape.gpu = from.device().index;
  shape.kind =
      real ? (is_wide(from) ? fft::kD2Z : fft::kR2C) : (is_wide(from) ? fft::kZ2Z : fft::kC2C);
  shape.rank = static_cast<int>(plan.dims.size());
  const int64_t first = from.ndim() - shape.rank;
  for (int64_t d = 0; d < from.ndim(); ++d) {
    if (d < first) {
      shape.batch *= from.size(d);
    } else {
      shape.sizes[static_cast<size_t>(d - first)] = from.size(d);
    }
  }
  return shape;
}

Status scale(const Tensor& out, double factor) {
  if (factor == 1.0) {
    return Status::kOk;
  }
  void* data = out.data();
  int64_t numel = 2 * out.numel();
  void* arguments[] = {&data, &factor, &numel};
  return launch_elements(out.device().index,
                         is_wide(out) ? "aotip_scale_float64" : "aotip_scale_float32", numel,
                         arguments);
}

/// Transforms `from`, which is `out` or has nothing to do with it.
Status transform(const Tensor& from, Tensor& out, const FftPlan& plan, bool real, bool forward) {
  const PlanScope scope(shape_of(from, plan, real));
  AOTIP_RETURN_IF_FAILED(scope.status());
  const Workspace workspace(scope.workspace_nbytes(), out.device().index);
  AOTIP_RETURN_IF_FAILED(workspace.status());
  const Direction direction = forward ? fft::kForward : fft::kInverse;
  AOTIP_RETURN_IF_FAILED(scope.run(from.data(), out.data(), direction, workspace.data()));
  return scale(out, plan.scale);
}

}  // namespace

Status Operators::check_fft(const Tensor&, int64_t count) {
  AOTIP_CHECK(count <= fft::kMaxRank, "%lld dims at once, cuFFT takes at most %lld",
              static_cast<long long>(count), static_cast<long long>(fft::kMaxRank));
  return Status::kOk;
}

Status Operators::fft(const Tensor& self, Tensor& out, const FftPlan& plan, bool real,
                      bool onesided, bool forward) {
  if (real && !onesided) {
    AOTIP_RETURN_IF_FAILED(cuda_device().copy(out, self));
    return transform(out, out, plan, false, forward);
  }
  if (reinterpret_cast<uintptr_t>(self.data()) % kAlignment == 0) {
    return transform(self, out, plan, real, forward);
  }
  const OwnedTensor aligned = row_major_copy(self);
  AOTIP_RETURN_IF_NULL(aligned);
  return transform(*aligned, out, plan, real, forward);
}

}  // namespace aoti_plugins::cuda
