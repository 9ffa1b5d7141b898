#include "ops/small_linear.h"

#include <cinttypes>
#include <initializer_list>

#include "slim/element.h"

namespace aoti_plugins::ops {
namespace {

constexpr int64_t kGroupUnit = 32;

}  // namespace

Status check_small_linear(const SmallLinear& l, SmallLinearSizes* ret) noexcept {
  const Tensor& x = *l.x;
  const bool has_codes = x.dtype() == kInt8;
  AOTIP_CHECK(x.ndim() >= 1, "x has no dims");
  AOTIP_CHECK(has_codes || x.dtype() == kFloat32 || x.dtype() == kFloat16 || x.dtype() == kBFloat16,
              "x is %s, expected float32, float16, bfloat16 or int8", dtype_name(x.dtype()));
  AOTIP_CHECK(l.bits == 4 || l.bits == 8, "weights of %" PRId64 " bits, expected 4 or 8", l.bits);
  AOTIP_CHECK(l.zero_kind >= kNoZero && l.zero_kind <= kAddedZero,
              "zero_kind %" PRId64 ", expected 0 to 2", l.zero_kind);
  AOTIP_CHECK((l.zero != nullptr) == (l.zero_kind != kNoZero),
              "zero_kind is %" PRId64 ", and there are %szeros", l.zero_kind,
              l.zero != nullptr ? "" : "no ");
  const int32_t dtype = l.bits == 4 ? kUInt8 : kInt8;
  AOTIP_CHECK(l.codes->dtype() == dtype && l.codes->ndim() == 2 && l.codes->is_contiguous(),
              "codes are %s of %" PRId64 " dims, expected contiguous %s of 2",
              dtype_name(l.codes->dtype()), l.codes->ndim(), dtype_name(dtype));
  SmallLinearSizes s{1, l.codes->size(0), l.codes->size(1) * 8 / l.bits, 0};
  for (int64_t d = 0; d + 1 < x.ndim(); ++d) s.m *= x.size(d);
  AOTIP_CHECK(x.size(x.ndim() - 1) == s.k,
              "rows of x have %" PRId64 " elements, those of the weight %" PRId64,
              x.size(x.ndim() - 1), s.k);
  for (const Tensor* one : {l.scale, l.zero}) {
    AOTIP_CHECK(one == nullptr || (is_real(one->dtype()) && one->ndim() == 2 &&
                                   one->size(0) == s.n && one->size(1) == l.scale->size(1)),
                "scales and zeros are not floats of [%" PRId64 ", groups]", s.n);
  }
  s.groups = l.scale->size(1);
  AOTIP_CHECK(s.groups > 0 && s.k % (s.groups * kGroupUnit) == 0,
              "%" PRId64 " weights of a row in %" PRId64 " groups: not of a multiple of 32", s.k,
              s.groups);
  AOTIP_CHECK(l.bias == nullptr || (is_real(l.bias->dtype()) && l.bias->numel() == s.n),
              "bias is not floats, one for each of %" PRId64 " columns", s.n);
  AOTIP_CHECK(has_codes == (l.row_scale != nullptr), "x is %s with %srow_scale",
              dtype_name(x.dtype()), l.row_scale != nullptr ? "" : "no ");
  AOTIP_CHECK(!has_codes || (l.row_scale->dtype() == kFloat32 && l.row_scale->numel() == s.m),
              "row_scale is %s of %" PRId64 " elements, expected float32 of %" PRId64,
              dtype_name(l.row_scale->dtype()), l.row_scale->numel(), s.m);
  AOTIP_CHECK(l.row_zero == nullptr ||
                  (has_codes && l.row_zero->dtype() == kInt8 && l.row_zero->numel() == s.m),
              "row_zero does not fit x: one int8 for each row of int8");
  for (const Tensor* one : {l.codes, l.scale, l.zero, l.bias, l.row_scale, l.row_zero}) {
    AOTIP_CHECK(one == nullptr || one->device() == x.device(), "an argument is on %s, expected %s",
                device_type_name(one->device().type), device_type_name(x.device().type));
  }
  *ret = s;
  return Status::kOk;
}

}  // namespace aoti_plugins::ops
