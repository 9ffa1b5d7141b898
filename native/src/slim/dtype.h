#pragma once

#include <cstddef>
#include <cstdint>

namespace aoti_plugins {

/// Element types by PyTorch's `c10::ScalarType` codes.
enum DType : int32_t {
#define AOTIP_DTYPE(constant, code, name, nbytes, is_converted, is_in_payloads) constant = code,
#include "slim/dtypes.inc"
};

/// Whether it is bool or one of the integers that PyTorch computes with.
constexpr bool is_integer(int32_t dtype) {
  switch (dtype) {
    case kBool:
    case kUInt8:
    case kInt8:
    case kInt16:
    case kInt32:
    case kInt64:
      return true;
    default:
      return false;
  }
}

/// Whether it is a floating-point dtype that PyTorch computes with.
constexpr bool is_real(int32_t dtype) {
  return dtype == kFloat16 || dtype == kBFloat16 || dtype == kFloat32 || dtype == kFloat64;
}

/// What dtypes.inc says of a dtype, and what holds for any other code.
struct DTypeFacts {
  const char* name = "unknown dtype";
  size_t nbytes = 0;
  bool is_converted = false;
  bool is_in_payloads = false;
};

/// The facts by code; the last one in the list has the largest.
struct DTypeTable {
  static constexpr uint32_t kCodes = kFloat4E2M1FNX2 + 1;
  DTypeFacts facts[kCodes];

  constexpr DTypeTable() : facts() {
#define AOTIP_DTYPE(constant, code, name, nbytes, is_converted, is_in_payloads) \
  facts[code] = {#name, nbytes, is_converted, is_in_payloads};
#include "slim/dtypes.inc"
  }
};

inline constexpr DTypeTable kDTypes{};
inline constexpr DTypeFacts kUnknownDType{};

constexpr const DTypeFacts& dtype_facts(int32_t dtype) {
  const auto code = static_cast<uint32_t>(dtype);
  return code < DTypeTable::kCodes ? kDTypes.facts[code] : kUnknownDType;
}

/// Bytes of one element, 0 for a code that is not a known dtype.
constexpr size_t element_nbytes(int32_t dtype) {
  return dtype_facts(dtype).nbytes;
}

/// The name PyTorch uses, without `torch.`; "unknown dtype" for any other code.
constexpr const char* dtype_name(int32_t dtype) {
  return dtype_facts(dtype).name;
}

/// Whether elements are read and written as numbers, by `load_element()` and `store_element()`. The
/// 8- and 4-bit floats and complex32 are only moved, never converted.
constexpr bool is_convertible(int32_t dtype) {
  return dtype_facts(dtype).is_converted;
}

/// Whether inputs, outputs and constants of a program may have it.
constexpr bool is_payload_dtype(uint32_t dtype) {
  return dtype_facts(static_cast<int32_t>(dtype)).is_in_payloads;
}

}  // namespace aoti_plugins
