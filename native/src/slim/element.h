#pragma once

#include <cstdint>

#include "slim/dtype.h"
#include "slim/export.h"

namespace aoti_plugins {

/// One element of any dtype, in the widest form of its kind.
struct Element {
  enum Kind : uint8_t { kInteger, kUnsigned, kReal, kComplex } kind = kInteger;
  int64_t integer = 0;  ///< also the bits of a `kUnsigned`
  double real = 0.0;
  double imag = 0.0;
};

/// Reads the element at `address`; the dtype must be convertible.
AOTIP_CORE Element load_element(const void* address, int32_t dtype) noexcept;

/// Writes `element` as PyTorch's `.to(dtype)` would: integers wrap, reals are truncated to
/// integers, complex numbers lose their imaginary part where the target has none, non-zero is true.
AOTIP_CORE void store_element(void* address, int32_t dtype, const Element& element) noexcept;

}  // namespace aoti_plugins
