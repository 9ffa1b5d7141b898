#pragma once

#include "ops/fft_plan.h"
#include "ops/operand.h"

namespace aoti_plugins::ops {

/// A Fourier transform; `real` of real numbers, `onesided` without what their symmetry says.
///
/// @tparam D `check_fft(self, count)`, and `fft(self, out, plan, real, onesided, forward)` for a
///     result with elements.
template <typename D>
Status fft(AtenTensorHandle self, const int64_t* dim, int64_t count, int64_t normalization,
           bool real, bool onesided, bool forward, AtenTensorHandle* ret0) {
  AOTIP_CHECK_TENSORS(self);
  AOTIP_CHECK_ARG(ret0);
  const Tensor& t = *unwrap(self);
  AOTIP_RETURN_IF_FAILED(check_on(t, "self", D::kType));
  FftPlan plan;
  AOTIP_RETURN_IF_FAILED(make_fft_plan(t, dim, count, normalization, real, &plan));
  AOTIP_RETURN_IF_FAILED(D::check_fft(t, count));
  const typename D::Scope scope(t);
  AOTIP_RETURN_IF_FAILED(scope.status());
  OwnedTensor out(make_fft_output(t, plan, onesided));
  AOTIP_RETURN_IF_NULL(out);
  if (out->numel() > 0) {
    AOTIP_RETURN_IF_FAILED(D::fft(t, *out, plan, real, onesided, forward));
  }
  return give(out.release(), ret0);
}

}  // namespace aoti_plugins::ops
