#include "ops/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "ops/wrap_dim.h"
#include "slim/dtype.h"
#include "slim/status.h"

namespace aoti_plugins {
namespace {

enum Normalization : int64_t { kNone = 0, kByRoot = 1, kByLength = 2 };

Status check_dtype(int32_t dtype, bool real) {
  const bool good =
      real ? dtype == kFloat32 || dtype == kFloat64 : dtype == kComplex64 || dtype == kComplex128;
  AOTIP_CHECK(good, "no %s transform of %s", real ? "real" : "complex", dtype_name(dtype));
  return Status::kOk;
}

Status add_dims(const Tensor& self, const int64_t* dim, int64_t count, FftPlan* plan) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t wrapped = 0;
    AOTIP_RETURN_IF_FAILED(wrap_dim(self, dim[i], &wrapped));
    AOTIP_CHECK(self.ndim() > 0 && self.size(wrapped) > 0, "dim %lld has no elements",
                static_cast<long long>(wrapped));
    AOTIP_CHECK(std::find(plan->dims.begin(), plan->dims.end(), wrapped) == plan->dims.end(),
                "dim %lld is named twice", static_cast<long long>(wrapped));
    plan->dims.push_back(wrapped);
  }
  const int64_t least = *std::min_element(plan->dims.begin(), plan->dims.end());
  AOTIP_CHECK(least == self.ndim() - count, "the dims are not the last %lld of %lld",
              static_cast<long long>(count), static_cast<long long>(self.ndim()));
  return Status::kOk;
}

}  // namespace

Status make_fft_plan(const Tensor& self, const int64_t* dim, int64_t count, int64_t normalization,
                     bool real, FftPlan* plan) noexcept {
  try {
    AOTIP_RETURN_IF_FAILED(check_dtype(self.dtype(), real));
    AOTIP_CHECK(count >= 1 && dim != nullptr, "there is no dim to transform");
    AOTIP_CHECK(self.is_contiguous(), "self is not row-major");
    AOTIP_RETURN_IF_FAILED(add_dims(self, dim, count, plan));
    AOTIP_CHECK(normalization >= kNone && normalization <= kByLength, "normalization is %lld",
                static_cast<long long>(normalization));
    double numel = 1.0;
    for (const int64_t d : plan->dims) {
      numel *= static_cast<double>(self.size(d));
    }
    plan->scale = normalization == kByLength ? 1.0 / numel
                  : normalization == kByRoot ? 1.0 / std::sqrt(numel)
                                             : 1.0;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("planning a transform: %s", error.what());
  }
}

Tensor* make_fft_output(const Tensor& self, const FftPlan& plan, bool onesided) noexcept {
  const bool wide = self.dtype() == kFloat64 || self.dtype() == kComplex128;
  int64_t sizes[Tensor::kMaxDims];
  std::copy(self.sizes(), self.sizes() + self.ndim(), sizes);
  int64_t& last = sizes[plan.dims.back()];
  last = onesided ? last / 2 + 1 : last;
  return Tensor::empty(self.ndim(), sizes, wide ? kComplex128 : kComplex64, self.device());
}

}  // namespace aoti_plugins
