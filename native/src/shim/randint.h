#pragma once

#include <algorithm>
#include <cstdint>

#include "slim/element.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// Checks the arguments of randint.low_out, from which generated code takes the seeds of all its
/// random numbers: `out` is contiguous, on the device, of the sizes.
inline Status check_randint(const Tensor& out, int32_t device_type, int64_t low, int64_t high,
                            const int64_t* size, int64_t count) {
  AOTIP_CHECK(out.device().type == device_type, "out is on %s, expected %s",
              device_type_name(out.device().type), device_type_name(device_type));
  AOTIP_CHECK(is_integer(out.dtype()) || is_real(out.dtype()), "no random integers as %s",
              dtype_name(out.dtype()));
  AOTIP_CHECK(low < high, "the numbers are to be from %lld and below %lld, which leaves none",
              static_cast<long long>(low), static_cast<long long>(high));
  AOTIP_CHECK(count == out.ndim() && (count == 0 || size != nullptr) &&
                  std::equal(size, size + count, out.sizes()),
              "the sizes asked for are not those of out");
  AOTIP_CHECK(out.is_contiguous(), "out is not contiguous");
  return Status::kOk;
}

}  // namespace aoti_plugins
