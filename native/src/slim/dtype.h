#pragma once

#include <cstddef>
#include <cstdint>

namespace aoti_plugins {

/// Element types by PyTorch's `c10::ScalarType` codes. Must match aoti_plugins/dtypes.py.
enum DType : int32_t {
  kUInt8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kFloat32 = 6,
  kFloat64 = 7,
  kComplex32 = 8,
  kComplex64 = 9,
  kComplex128 = 10,
  kBool = 11,
  kBFloat16 = 15,
  kFloat8E5M2 = 23,
  kFloat8E4M3FN = 24,
  kFloat8E5M2FNUZ = 25,
  kFloat8E4M3FNUZ = 26,
  kUInt16 = 27,
  kUInt32 = 28,
  kUInt64 = 29,
  kFloat8E8M0FNU = 44,
  kFloat4E2M1FNX2 = 45,
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

/// Bytes of one element, 0 for a code that is not a known dtype.
constexpr size_t element_nbytes(int32_t dtype) {
  switch (dtype) {
    case kUInt8:
    case kInt8:
    case kBool:
    case kFloat8E5M2:
    case kFloat8E4M3FN:
    case kFloat8E5M2FNUZ:
    case kFloat8E4M3FNUZ:
    case kFloat8E8M0FNU:
    case kFloat4E2M1FNX2:
      return 1;
    case kInt16:
    case kFloat16:
    case kBFloat16:
    case kUInt16:
      return 2;
    case kInt32:
    case kFloat32:
    case kComplex32:
    case kUInt32:
      return 4;
    case kInt64:
    case kFloat64:
    case kComplex64:
    case kUInt64:
      return 8;
    case kComplex128:
      return 16;
    default:
      return 0;
  }
}

/// The name PyTorch uses, without `torch.`; "unknown dtype" for any other code.
constexpr const char* dtype_name(int32_t dtype) {
  switch (dtype) {
    case kUInt8:
      return "uint8";
    case kInt8:
      return "int8";
    case kInt16:
      return "int16";
    case kInt32:
      return "int32";
    case kInt64:
      return "int64";
    case kFloat16:
      return "float16";
    case kFloat32:
      return "float32";
    case kFloat64:
      return "float64";
    case kComplex32:
      return "complex32";
    case kComplex64:
      return "complex64";
    case kComplex128:
      return "complex128";
    case kBool:
      return "bool";
    case kBFloat16:
      return "bfloat16";
    case kFloat8E5M2:
      return "float8_e5m2";
    case kFloat8E4M3FN:
      return "float8_e4m3fn";
    case kFloat8E5M2FNUZ:
      return "float8_e5m2fnuz";
    case kFloat8E4M3FNUZ:
      return "float8_e4m3fnuz";
    case kUInt16:
      return "uint16";
    case kUInt32:
      return "uint32";
    case kUInt64:
      return "uint64";
    case kFloat8E8M0FNU:
      return "float8_e8m0fnu";
    case kFloat4E2M1FNX2:
      return "float4_e2m1fn_x2";
    default:
      return "unknown dtype";
  }
}

}  // namespace aoti_plugins
