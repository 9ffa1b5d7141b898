// Codes that models read through functions instead of having them compiled in.

#include <aoti_plugins/shim.h>

#include "slim/device.h"
#include "slim/dtype.h"
#include "slim/status.h"

using namespace aoti_plugins;

#define AOTIP_CONSTANT(name, code) \
  int32_t aoti_torch_##name() {    \
    return code;                   \
  }

AOTIP_CONSTANT(device_type_cpu, kCpu)
AOTIP_CONSTANT(device_type_cuda, kCuda)
AOTIP_CONSTANT(device_type_meta, kMeta)
AOTIP_CONSTANT(device_type_xpu, kXpu)
AOTIP_CONSTANT(device_type_mps, kMps)
AOTIP_CONSTANT(device_type_privateuse1, kPrivateUse1)

#define AOTIP_DTYPE(constant, code, name, nbytes, is_converted, is_in_payloads) \
  AOTIP_CONSTANT(dtype_##name, code)
#include "slim/dtypes.inc"

AOTIP_CONSTANT(layout_strided, 0)
AOTIP_CONSTANT(layout_sparse_coo, 1)
AOTIP_CONSTANT(layout_sparse_csr, 2)
AOTIP_CONSTANT(layout__mkldnn, 3)
AOTIP_CONSTANT(layout_sparse_csc, 4)
AOTIP_CONSTANT(layout_sparse_bsr, 5)
AOTIP_CONSTANT(layout_sparse_bsc, 6)
AOTIP_CONSTANT(layout_jagged, 7)

AOTIP_CONSTANT(memory_format_contiguous_format, 0)
AOTIP_CONSTANT(memory_format_preserve_format, 1)
AOTIP_CONSTANT(memory_format_channels_last, 2)
AOTIP_CONSTANT(memory_format_channels_last_3d, 3)

size_t aoti_torch_dtype_element_size(int32_t dtype) {
  const size_t nbytes = element_nbytes(dtype);
  if (nbytes == 0) {
    (void)fail("aoti_torch_dtype_element_size: %d is not the code of a known dtype", dtype);
  }
  return nbytes;
}

uint64_t aoti_torch_abi_version() {
  constexpr uint64_t kMajor = 2;
  constexpr uint64_t kMinor = 13;
  return kMajor << 56 | kMinor << 48;
}
