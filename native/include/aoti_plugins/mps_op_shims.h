#pragma once

/// The C shims of the operators that the MPS delegate's library provides with kernels of its own,
/// with PyTorch's names and signatures. shim.h and mps_shim.h have the conventions. All tensors are
/// on mps.

#include <aoti_plugins/shim.h>

extern "C" {

// The operators, with comments in the list.
#define AOTIP_OPERATOR(shim, op, parameters) \
  AOTIP_EXPORT AOTITorchError aoti_torch_mps_##shim parameters;
#define AOTIP_MPS_OPERATOR AOTIP_OPERATOR
#include <aoti_plugins/operators.inc>

}  // extern "C"
