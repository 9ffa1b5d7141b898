// Codes that models read through functions instead of having them compiled in.

#include <aoti_plugins/shim.h>

#include "slim/device.h"
#include "slim/dtype.h"
#include "slim/status.h"

using namespace aoti_plugins;

int32_t aoti_torch_device_type_cpu() {
  return kCpu;
}
int32_t aoti_torch_device_type_cuda() {
  return kCuda;
}
int32_t aoti_torch_device_type_meta() {
  return kMeta;
}
int32_t aoti_torch_device_type_xpu() {
  return kXpu;
}
int32_t aoti_torch_device_type_mps() {
  return kMps;
}
int32_t aoti_torch_device_type_privateuse1() {
  return kPrivateUse1;
}

int32_t aoti_torch_dtype_float8_e5m2() {
  return kFloat8E5M2;
}
int32_t aoti_torch_dtype_float8_e4m3fn() {
  return kFloat8E4M3FN;
}
int32_t aoti_torch_dtype_float8_e5m2fnuz() {
  return kFloat8E5M2FNUZ;
}
int32_t aoti_torch_dtype_float8_e4m3fnuz() {
  return kFloat8E4M3FNUZ;
}
int32_t aoti_torch_dtype_float8_e8m0fnu() {
  return kFloat8E8M0FNU;
}
int32_t aoti_torch_dtype_float4_e2m1fn_x2() {
  return kFloat4E2M1FNX2;
}
int32_t aoti_torch_dtype_bfloat16() {
  return kBFloat16;
}
int32_t aoti_torch_dtype_float16() {
  return kFloat16;
}
int32_t aoti_torch_dtype_float32() {
  return kFloat32;
}
int32_t aoti_torch_dtype_float64() {
  return kFloat64;
}
int32_t aoti_torch_dtype_uint8() {
  return kUInt8;
}
int32_t aoti_torch_dtype_uint16() {
  return kUInt16;
}
int32_t aoti_torch_dtype_uint32() {
  return kUInt32;
}
int32_t aoti_torch_dtype_uint64() {
  return kUInt64;
}
int32_t aoti_torch_dtype_int8() {
  return kInt8;
}
int32_t aoti_torch_dtype_int16() {
  return kInt16;
}
int32_t aoti_torch_dtype_int32() {
  return kInt32;
}
int32_t aoti_torch_dtype_int64() {
  return kInt64;
}
int32_t aoti_torch_dtype_bool() {
  return kBool;
}
int32_t aoti_torch_dtype_complex32() {
  return kComplex32;
}
int32_t aoti_torch_dtype_complex64() {
  return kComplex64;
}
int32_t aoti_torch_dtype_complex128() {
  return kComplex128;
}

size_t aoti_torch_dtype_element_size(int32_t dtype) {
  const size_t nbytes = element_nbytes(dtype);
  if (nbytes == 0) {
    (void)fail("aoti_torch_dtype_element_size: %d is not the code of a known dtype", dtype);
  }
  return nbytes;
}

int32_t aoti_torch_layout_strided() {
  return 0;
}
int32_t aoti_torch_layout_sparse_coo() {
  return 1;
}
int32_t aoti_torch_layout_sparse_csr() {
  return 2;
}
int32_t aoti_torch_layout__mkldnn() {
  return 3;
}
int32_t aoti_torch_layout_sparse_csc() {
  return 4;
}
int32_t aoti_torch_layout_sparse_bsr() {
  return 5;
}
int32_t aoti_torch_layout_sparse_bsc() {
  return 6;
}
int32_t aoti_torch_layout_jagged() {
  return 7;
}

int32_t aoti_torch_memory_format_contiguous_format() {
  return 0;
}
int32_t aoti_torch_memory_format_preserve_format() {
  return 1;
}
int32_t aoti_torch_memory_format_channels_last() {
  return 2;
}
int32_t aoti_torch_memory_format_channels_last_3d() {
  return 3;
}

uint64_t aoti_torch_abi_version() {
  constexpr uint64_t kMajor = 2;
  constexpr uint64_t kMinor = 13;
  return kMajor << 56 | kMinor << 48;
}
