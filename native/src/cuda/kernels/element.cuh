#pragma once

// One element of any dtype on the GPU: as slim/element.h has it on the host.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "slim/dtype.h"

namespace aoti_plugins::cuda {

/// One element in the widest form of its kind. As Element in slim/element.h.
struct Number {
  enum Kind { kInteger, kUnsigned, kReal, kComplex } kind;
  int64_t integer;
  double real;
  double imag;
};

template <typename T>
__device__ T at(const void* base, int64_t i) {
  return static_cast<const T*>(base)[i];
}

inline __device__ Number integer(int64_t value) {
  return {Number::kInteger, value, 0.0, 0.0};
}

inline __device__ Number real(double value) {
  return {Number::kReal, 0, value, 0.0};
}

inline __device__ Number load(const void* base, int64_t i, int32_t dtype) {
  switch (dtype) {
    case kBool:
      return integer(at<uint8_t>(base, i) != 0);
    case kUInt8:
      return integer(at<uint8_t>(base, i));
    case kInt8:
      return integer(at<int8_t>(base, i));
    case kInt16:
      return integer(at<int16_t>(base, i));
    case kUInt16:
      return integer(at<uint16_t>(base, i));
    case kInt32:
      return integer(at<int32_t>(base, i));
    case kUInt32:
      return integer(at<uint32_t>(base, i));
    case kInt64:
      return integer(at<int64_t>(base, i));
    case kUInt64:
      return {Number::kUnsigned, static_cast<int64_t>(at<uint64_t>(base, i)), 0.0, 0.0};
    case kFloat16:
      return real(__half2float(at<__half>(base, i)));
    case kBFloat16:
      return real(__bfloat162float(at<__nv_bfloat16>(base, i)));
    case kFloat32:
      return real(at<float>(base, i));
    case kFloat64:
      return real(at<double>(base, i));
    case kComplex64:
      return {Number::kComplex, 0, at<float>(base, 2 * i), at<float>(base, 2 * i + 1)};
    default:  // complex128
      return {Number::kComplex, 0, at<double>(base, 2 * i), at<double>(base, 2 * i + 1)};
  }
}

inline __device__ double to_real(const Number& n) {
  switch (n.kind) {
    case Number::kInteger:
      return static_cast<double>(n.integer);
    case Number::kUnsigned:
      return static_cast<double>(static_cast<uint64_t>(n.integer));
    default:
      return n.real;
  }
}

inline __device__ float to_float(const Number& n) {
  switch (n.kind) {
    case Number::kInteger:
      return static_cast<float>(n.integer);
    case Number::kUnsigned:
      return static_cast<float>(static_cast<uint64_t>(n.integer));
    default:
      return static_cast<float>(n.real);
  }
}

inline __device__ int64_t to_integer(const Number& n) {
  return n.kind == Number::kInteger || n.kind == Number::kUnsigned ? n.integer
                                                                   : static_cast<int64_t>(n.real);
}

inline __device__ bool is_true(const Number& n) {
  return n.kind == Number::kInteger || n.kind == Number::kUnsigned ? n.integer != 0
                                                                   : n.real != 0.0 || n.imag != 0.0;
}

template <typename T>
__device__ void put(void* base, int64_t i, T value) {
  static_cast<T*>(base)[i] = value;
}

inline __device__ void store(void* base, int64_t i, int32_t dtype, const Number& n) {
  switch (dtype) {
    case kBool:
      return put<uint8_t>(base, i, is_true(n) ? 1 : 0);
    case kUInt8:
      return put(base, i, static_cast<uint8_t>(to_integer(n)));
    case kInt8:
      return put(base, i, static_cast<int8_t>(to_integer(n)));
    case kInt16:
      return put(base, i, static_cast<int16_t>(to_integer(n)));
    case kUInt16:
      return put(base, i, static_cast<uint16_t>(to_integer(n)));
    case kInt32:
      return put(base, i, static_cast<int32_t>(to_integer(n)));
    case kUInt32:
      return put(base, i, static_cast<uint32_t>(to_integer(n)));
    case kInt64:
      return put(base, i, to_integer(n));
    case kUInt64:
      return put(base, i,
                 n.kind == Number::kReal || n.kind == Number::kComplex
                     ? static_cast<uint64_t>(n.real)
                     : static_cast<uint64_t>(n.integer));
    case kFloat16:
      return put(base, i, __float2half_rn(to_float(n)));
    case kBFloat16:
      return put(base, i, __float2bfloat16_rn(to_float(n)));
    case kFloat32:
      return put(base, i, to_float(n));
    case kFloat64:
      return put(base, i, to_real(n));
    case kComplex64:
      put(base, 2 * i, to_float(n));
      return put(base, 2 * i + 1, static_cast<float>(n.imag));
    default:  // complex128
      put(base, 2 * i, to_real(n));
      return put(base, 2 * i + 1, n.imag);
  }
}

}  // namespace aoti_plugins::cuda
