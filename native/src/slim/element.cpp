#include "slim/element.h"

#include <cmath>
#include <cstring>

#include "slim/half.h"

namespace aoti_plugins {
namespace {

template <typename T>
T read(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof(value));
  return value;
}

template <typename T>
void write(void* address, T value) {
  std::memcpy(address, &value, sizeof(value));
}

Element integer(int64_t value) {
  Element element;
  element.integer = value;
  return element;
}

Element real(double value) {
  Element element;
  element.kind = Element::kReal;
  element.real = value;
  return element;
}

Element complex(double re, double im) {
  Element element = real(re);
  element.kind = Element::kComplex;
  element.imag = im;
  return element;
}

double as_real(const Element& e) {
  switch (e.kind) {
    case Element::kInteger:
      return static_cast<double>(e.integer);
    case Element::kUnsigned:
      return static_cast<double>(static_cast<uint64_t>(e.integer));
    default:
      return e.real;
  }
}

/// Truncation that is defined for every input; what does not fit gives the smallest integer, as x86
/// does.
int64_t as_integer(const Element& e) {
  if (e.kind == Element::kInteger || e.kind == Element::kUnsigned) {
    return e.integer;
  }
  if (!(e.real >= -9223372036854775808.0)) {
    return INT64_MIN;
  }
  if (e.real >= 9223372036854775808.0) {
    return e.real < 18446744073709551616.0 ? static_cast<int64_t>(static_cast<uint64_t>(e.real))
                                           : INT64_MIN;
  }
  return static_cast<int64_t>(e.real);
}

bool as_bool(const Element& e) {
  if (e.kind == Element::kInteger || e.kind == Element::kUnsigned) {
    return e.integer != 0;
  }
  return e.real != 0.0 || e.imag != 0.0;
}

}  // namespace

Element load_element(const void* address, int32_t dtype) noexcept {
  switch (dtype) {
    case kUInt8:
      return integer(read<uint8_t>(address));
    case kInt8:
      return integer(read<int8_t>(address));
    case kInt16:
      return integer(read<int16_t>(address));
    case kInt32:
      return integer(read<int32_t>(address));
    case kInt64:
      return integer(read<int64_t>(address));
    case kUInt16:
      return integer(read<uint16_t>(address));
    case kUInt32:
      return integer(read<uint32_t>(address));
    case kUInt64: {
      Element element = integer(static_cast<int64_t>(read<uint64_t>(address)));
      element.kind = Element::kUnsigned;
      return element;
    }
    case kBool:
      return integer(read<uint8_t>(address) != 0 ? 1 : 0);
    case kFloat16:
      return real(half_to_float(read<uint16_t>(address)));
    case kBFloat16:
      return real(bfloat16_to_float(read<uint16_t>(address)));
    case kFloat32:
      return real(read<float>(address));
    case kFloat64:
      return real(read<double>(address));
    case kComplex64: {
      const float* parts = static_cast<const float*>(address);
      return complex(read<float>(parts), read<float>(parts + 1));
    }
    case kComplex128: {
      const double* parts = static_cast<const double*>(address);
      return complex(read<double>(parts), read<double>(parts + 1));
    }
    default:
      return integer(0);
  }
}

void store_element(void* address, int32_t dtype, const Element& e) noexcept {
  switch (dtype) {
    case kUInt8:
      return write(address, static_cast<uint8_t>(as_integer(e)));
    case kInt8:
      return write(address, static_cast<int8_t>(as_integer(e)));
    case kInt16:
      return write(address, static_cast<int16_t>(as_integer(e)));
    case kInt32:
      return write(address, static_cast<int32_t>(as_integer(e)));
    case kInt64:
      return write(address, as_integer(e));
    case kUInt16:
      return write(address, static_cast<uint16_t>(as_integer(e)));
    case kUInt32:
      return write(address, static_cast<uint32_t>(as_integer(e)));
    case kUInt64:
      return write(address, static_cast<uint64_t>(as_integer(e)));
    case kBool:
      return write(address, static_cast<uint8_t>(as_bool(e) ? 1 : 0));
    case kFloat16:
      return write(address, float_to_half(static_cast<float>(as_real(e))));
    case kBFloat16:
      return write(address, float_to_bfloat16(static_cast<float>(as_real(e))));
    case kFloat32:
      return write(address, static_cast<float>(as_real(e)));
    case kFloat64:
      return write(address, as_real(e));
    case kComplex64:
      write(address, static_cast<float>(as_real(e)));
      return write(static_cast<float*>(address) + 1, static_cast<float>(e.imag));
    case kComplex128:
      write(address, as_real(e));
      return write(static_cast<double*>(address) + 1, e.imag);
    default:
      return;
  }
}

}  // namespace aoti_plugins
