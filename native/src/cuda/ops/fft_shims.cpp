// Fourier transforms over cuFFT: real to complex, and complex to complex.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/libraries/cufft.h"
#include "cuda/memory/workspace.h"
#include "shim/fft_plan.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;
using cuda::fft::Direction;
using cuda::fft::PlanScope;
using cuda::fft::Shape;

namespace {

// What cuFFT asks of an address: that of a whole complex element.
constexpr uintptr_t kAlignment = 16;

bool is_wide(const Tensor& t) {
  return t.dtype() == kFloat64 || t.dtype() == kComplex128;
}

Shape shape_of(const Tensor& from, const FftPlan& plan, bool real) {
  Shape shape;
  shape.gpu = from.device().index;
  shape.kind = real ? (is_wide(from) ? cuda::fft::kD2Z : cuda::fft::kR2C)
                    : (is_wide(from) ? cuda::fft::kZ2Z : cuda::fft::kC2C);
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
  return cuda::launch_elements(out.device().index,
                               is_wide(out) ? "aotip_scale_float64" : "aotip_scale_float32", numel,
                               arguments);
}

/// Transforms `from`, which is `out` or has nothing to do with it.
Status transform(const Tensor& from, Tensor& out, const FftPlan& plan, bool real, bool forward) {
  const PlanScope scope(shape_of(from, plan, real));
  AOTIP_RETURN_IF_FAILED(scope.status());
  const cuda::Workspace workspace(scope.workspace_nbytes(), out.device().index);
  AOTIP_RETURN_IF_FAILED(workspace.status());
  const Direction direction = forward ? cuda::fft::kForward : cuda::fft::kInverse;
  AOTIP_RETURN_IF_FAILED(scope.run(from.data(), out.data(), direction, workspace.data()));
  return scale(out, plan.scale);
}

Status run(const Tensor& self, Tensor& out, const FftPlan& plan, bool real, bool onesided,
           bool forward) {
  if (real && !onesided) {
    AOTIP_RETURN_IF_FAILED(cuda::cuda_device().copy(out, self));
    return transform(out, out, plan, false, forward);
  }
  if (reinterpret_cast<uintptr_t>(self.data()) % kAlignment == 0) {
    return transform(self, out, plan, real, forward);
  }
  const OwnedTensor aligned(Tensor::empty(self.ndim(), self.sizes(), self.dtype(), self.device()));
  if (aligned == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(cuda::cuda_device().copy(*aligned, self));
  return transform(*aligned, out, plan, real, forward);
}

Status fft(AtenTensorHandle self, const int64_t* dim, int64_t count, int64_t normalization,
           bool real, bool onesided, bool forward, AtenTensorHandle* ret0) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_ARG(ret0);
  const Tensor& t = *unwrap(self);
  AOTIP_CHECK(t.device().type == kCuda, "self is on %s, expected cuda",
              device_type_name(t.device().type));
  FftPlan plan;
  AOTIP_RETURN_IF_FAILED(make_fft_plan(t, dim, count, normalization, real, &plan));
  AOTIP_CHECK(count <= cuda::fft::kMaxRank, "%lld dims at once, cuFFT takes at most %lld",
              static_cast<long long>(count), static_cast<long long>(cuda::fft::kMaxRank));
  const cuda::ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(cuda::use_gpu(t.device().index));
  OwnedTensor out(make_fft_output(t, plan, onesided));
  if (out == nullptr) {
    return Status::kFailed;
  }
  if (out->numel() > 0) {
    AOTIP_RETURN_IF_FAILED(run(t, *out, plan, real, onesided, forward));
  }
  *ret0 = wrap(out.release());
  return Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_cuda__fft_r2c(AtenTensorHandle self, const int64_t* dim, int64_t dim_len_,
                                        int64_t normalization, int32_t onesided,
                                        AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    return fft(self, dim, dim_len_, normalization, true, onesided != 0, true, ret0);
  });
}

AOTITorchError aoti_torch_cuda__fft_c2c(AtenTensorHandle self, const int64_t* dim, int64_t dim_len_,
                                        int64_t normalization, int32_t forward,
                                        AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    return fft(self, dim, dim_len_, normalization, false, false, forward != 0, ret0);
  });
}
