#pragma once

#include <cstdint>

#include "ops/wrap_dim.h"
#include "shim/run_shim.h"
#include "slim/status.h"
#include "slim/tensor.h"

// What an operator is written over: a device's table `D`, a type with
//
//   static constexpr int32_t kType           the device type
//   static bool computes(int32_t dtype)      whether its kernels take a dtype as numbers
//   static bool orders(int32_t dtype)        whether they sort it
//   Scope(const Tensor&), status()           makes the tensor's GPU current for a block
//
// and a function for each kernel, which gets checked arguments. Each device has one, `Operators`,
// in <device>/ops/operators.h; ops/shims.inc makes C functions of it.

namespace aoti_plugins::ops {

inline Status check_on(const Tensor& t, const char* name, int32_t device_type) {
  AOTIP_CHECK(t.device().type == device_type, "%s is on %s, expected %s", name,
              device_type_name(t.device().type), device_type_name(device_type));
  return Status::kOk;
}

/// On the same device as `out`, the index included.
inline Status check_beside(const Tensor& t, const char* name, const Tensor& out) {
  AOTIP_RETURN_IF_FAILED(check_on(t, name, out.device().type));
  AOTIP_CHECK(t.device() == out.device(), "%s is on %s:%d, expected %s:%d as out", name,
              device_type_name(t.device().type), t.device().index,
              device_type_name(out.device().type), out.device().index);
  return Status::kOk;
}

/// The scope of devices that have nothing to make current.
struct NoScope {
  explicit NoScope(const Tensor&) {}
  Status status() const { return Status::kOk; }
};

}  // namespace aoti_plugins::ops
