#include "ops/matmul_checks.h"

#include "ops/operand.h"

namespace aoti_plugins::ops {

Status check_operand(const Tensor* t, const char* name, int64_t ndim, Device device) noexcept {
  AOTIP_CHECK(t != nullptr, "%s is null", name);
  AOTIP_CHECK(t->defined(), "%s is an undefined tensor", name);
  AOTIP_RETURN_IF_FAILED(check_on(*t, name, device.type));
  AOTIP_CHECK(t->device() == device, "%s is on %s:%d, expected %s:%d as the result", name,
              device_type_name(device.type), t->device().index, device_type_name(device.type),
              device.index);
  AOTIP_CHECK(ndim < 0 || t->ndim() == ndim, "%s has %lld dims, expected %lld", name,
              static_cast<long long>(t->ndim()), static_cast<long long>(ndim));
  return Status::kOk;
}

Status check_result(const Tensor* out, int64_t ndim, int32_t device_type) noexcept {
  AOTIP_CHECK(out != nullptr, "out is null");
  AOTIP_RETURN_IF_FAILED(check_on(*out, "out", device_type));
  AOTIP_RETURN_IF_FAILED(check_operand(out, "out", ndim, out->device()));
  for (int64_t d = 0; out->numel() > 0 && d < ndim; ++d) {
    AOTIP_CHECK(out->size(d) == 1 || out->stride(d) != 0,
                "out has %lld elements at each address along dim %lld, expected one",
                static_cast<long long>(out->size(d)), static_cast<long long>(d));
  }
  return Status::kOk;
}

Status check_dtype(const Tensor& t, const char* name, int32_t of_result) noexcept {
  AOTIP_CHECK(t.dtype() == of_result, "%s is %s, expected %s as the result", name,
              dtype_name(t.dtype()), dtype_name(of_result));
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

namespace {

Status check_self(const Tensor& out, const Tensor& self) {
  AOTIP_RETURN_IF_FAILED(check_dtype(self, "self", out.dtype()));
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

}  // namespace

Status check_product(const Tensor* out, const Tensor* self, const Tensor* a, const Tensor* b,
                     bool batched, int32_t device_type) noexcept {
  const int64_t ndim = batched ? 3 : 2;
  AOTIP_RETURN_IF_FAILED(check_result(out, ndim, device_type));
  AOTIP_RETURN_IF_FAILED(check_operand(a, "the first matrix", ndim, out->device()));
  AOTIP_RETURN_IF_FAILED(check_operand(b, "the second matrix", ndim, out->device()));
  AOTIP_RETURN_IF_FAILED(check_sizes(*out, *a, *b, batched));
  if (self == nullptr) {
    return Status::kOk;
  }
  AOTIP_RETURN_IF_FAILED(check_operand(self, "self", -1, out->device()));
  return check_self(*out, *self);
}

AddedStrides added_strides(const Tensor& out, const Tensor& self) noexcept {
  int64_t strides[3] = {};
  for (int64_t d = 0; d < self.ndim(); ++d) {
    strides[d + 3 - self.ndim()] = self.size(d) != 1 ? self.stride(d) : 0;
  }
  return {out.ndim() == 3 ? strides[0] : 0, strides[1], strides[2]};
}

}  // namespace aoti_plugins::ops
