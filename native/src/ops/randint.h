#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/operand.h"
#include "ops/random.h"
#include "slim/element.h"

namespace aoti_plugins::ops {

/// Checks the arguments of randint.low_out, from which generated code takes the seeds of all its
/// random numbers: `out` is contiguous, on the device, of the sizes.
inline Status check_randint(const Tensor& out, int32_t device_type, int64_t low, int64_t high,
                            const int64_t* size, int64_t count) {
  AOTIP_RETURN_IF_FAILED(check_on(out, "out", device_type));
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

/// Draws the elements of a contiguous tensor in host memory.
inline void draw(Tensor& host, int64_t low, int64_t high) {
  char* at = static_cast<char*>(host.data());
  Element element;
  for (int64_t i = 0; i < host.numel(); ++i, at += host.itemsize()) {
    element.integer = random_between(low, high);
    store_element(at, host.dtype(), element);
  }
}

/// randint.low_out: the numbers are made on the host.
///
/// @tparam D `begin_random()` fails where no numbers can be had; where tensors are not in host
///     memory, `store_random(out, host)` brings them the elements of a contiguous one that is.
template <typename D>
Status randint(AtenTensorHandle out, int64_t low, int64_t high, const int64_t* size,
               int64_t count) {
  AOTIP_CHECK_TENSORS(out);
  Tensor& tensor = *unwrap(out);
  AOTIP_RETURN_IF_FAILED(check_randint(tensor, D::kType, low, high, size, count));
  const typename D::Scope scope(tensor);
  AOTIP_RETURN_IF_FAILED(scope.status());
  AOTIP_RETURN_IF_FAILED(D::begin_random());
  if constexpr (D::kType == kCpu) {
    draw(tensor, low, high);
    return Status::kOk;
  } else {
    const OwnedTensor host(Tensor::empty(tensor.ndim(), tensor.sizes(), tensor.dtype(), Device{}));
    AOTIP_RETURN_IF_NULL(host);
    draw(*host, low, high);
    return tensor.numel() > 0 ? D::store_random(tensor, *host) : Status::kOk;
  }
}

}  // namespace aoti_plugins::ops
