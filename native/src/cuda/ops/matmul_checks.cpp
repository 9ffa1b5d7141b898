#include "cuda/ops/matmul_checks.h"

namespace aoti_plugins::cuda {
namespace {

/// float32 factors: one, or one for each row (or column) of the result.
Status check_scale(const Tensor& scale, const char* name, int64_t lines, Device device) {
  AOTIP_RETURN_IF_FAILED(check_operand(&scale, name, -1, device));
  AOTIP_CHECK(scale.dtype() == kFloat32, "%s is %s, expected float32", name,
              dtype_name(scale.dtype()));
  AOTIP_CHECK(scale.numel() == 1 || (scale.numel() == lines && scale.is_contiguous()),
              "%s has %lld elements, expected 1, or %lld one behind the other", name,
              static_cast<long long>(scale.numel()), static_cast<long long>(lines));
  return Status::kOk;
}

}  // namespace

Status check_operand(const Tensor* t, const char* name, int64_t ndim, Device device) noexcept {
  AOTIP_CHECK(t != nullptr, "%s is null", name);
  AOTIP_CHECK(t->defined(), "%s is an undefined tensor", name);
  AOTIP_CHECK(t->device().type == kCuda, "%s is on %s, expected cuda", name,
              device_type_name(t->device().type));
  AOTIP_CHECK(t->device() == device, "%s is on cuda:%d, expected cuda:%d as the result", name,
              t->device().index, device.index);
  AOTIP_CHECK(ndim < 0 || t->ndim() == ndim, "%s has %lld dims, expected %lld", name,
              static_cast<long long>(t->ndim()), static_cast<long long>(ndim));
  return Status::kOk;
}

Status check_result(const Tensor* out, int64_t ndim) noexcept {
  AOTIP_CHECK(out != nullptr, "out is null");
  AOTIP_RETURN_IF_FAILED(check_operand(out, "out", ndim, out->device()));
  for (int64_t d = 0; out->numel() > 0 && d < ndim; ++d) {
    AOTIP_CHECK(out->size(d) == 1 || out->stride(d) != 0,
                "out has %lld elements at each address along dim %lld, expected one",
                static_cast<long long>(out->size(d)), static_cast<long long>(d));
  }
  return Status::kOk;
}

Status check_sizes(const Tensor& out, const Tensor& a, const Tensor& b, bool batched) noexcept {
  const int64_t f = batched ? 1 : 0;
  AOTIP_CHECK(b.size(f) == a.size(f + 1),
              "inner sizes differ: the first matrix has %lld columns, the second %lld rows",
              static_cast<long long>(a.size(f + 1)), static_cast<long long>(b.size(f)));
  AOTIP_CHECK(out.size(f) == a.size(f) && out.size(f + 1) == b.size(f + 1),
              "the result is [%lld, %lld], expected [%lld, %lld]",
              static_cast<long long>(out.size(f)), static_cast<long long>(out.size(f + 1)),
              static_cast<long long>(a.size(f)), static_cast<long long>(b.size(f + 1)));
  AOTIP_CHECK(!batched || (a.size(0) == out.size(0) && b.size(0) == out.size(0)),
              "batch sizes differ: %lld and %lld, result %lld", static_cast<long long>(a.size(0)),
              static_cast<long long>(b.size(0)), static_cast<long long>(out.size(0)));
  return Status::kOk;
}

Status check_self(const Tensor& out, const Tensor& self) noexcept {
  AOTIP_CHECK(self.dtype() == out.dtype(), "self is %s, expected %s as the result",
              dtype_name(self.dtype()), dtype_name(out.dtype()));
  AOTIP_CHECK(self.ndim() <= out.ndim(), "self has %lld dims, which do not broadcast to %lld",
              static_cast<long long>(self.ndim()), static_cast<long long>(out.ndim()));
  const int64_t extra = out.ndim() - self.ndim();
  for (int64_t d = 0; d < self.ndim(); ++d) {
    AOTIP_CHECK(self.size(d) == out.size(d + extra) || self.size(d) == 1,
                "size %lld of dim %lld of self does not broadcast to %lld",
                static_cast<long long>(self.size(d)), static_cast<long long>(d),
                static_cast<long long>(out.size(d + extra)));
  }
  return Status::kOk;
}

Status check_scales(const Tensor& out, const Tensor& a, const Tensor& b,
                    const MatmulScales& scales) noexcept {
  const int64_t m = a.size(0);
  const int64_t n = b.size(1);
  AOTIP_RETURN_IF_FAILED(check_scale(*scales.first, "scale_a", m, out.device()));
  AOTIP_RETURN_IF_FAILED(check_scale(*scales.second, "scale_b", n, out.device()));
  AOTIP_CHECK(!scales.by_row || (scales.first->numel() == m && scales.second->numel() == n),
              "scale_a has %lld elements and scale_b %lld, expected 1 each, or %lld and %lld",
              static_cast<long long>(scales.first->numel()),
              static_cast<long long>(scales.second->numel()), static_cast<long long>(m),
              static_cast<long long>(n));
  if (scales.result != nullptr) {
    AOTIP_RETURN_IF_FAILED(check_scale(*scales.result, "scale_result", 1, out.device()));
  }
  if (scales.bias != nullptr) {
    const Tensor& bias = *scales.bias;
    AOTIP_RETURN_IF_FAILED(check_operand(&bias, "bias", 1, out.device()));
    AOTIP_CHECK(bias.dtype() == kBFloat16 || bias.dtype() == kFloat16,
                "bias is %s, expected bfloat16 or float16", dtype_name(bias.dtype()));
    AOTIP_CHECK(bias.size(0) == n && bias.is_contiguous(),
                "bias has %lld elements, expected %lld one behind the other",
                static_cast<long long>(bias.size(0)), static_cast<long long>(n));
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
