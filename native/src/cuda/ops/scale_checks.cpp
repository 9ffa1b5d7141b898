#include "cuda/ops/scale_checks.h"

#include "ops/matmul_checks.h"

namespace aoti_plugins::cuda {
namespace {

using ops::check_operand;

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
