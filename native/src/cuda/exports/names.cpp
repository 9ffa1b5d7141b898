// The list of shims that the CUDA library provides.

#include "shim/names.h"

#include <aoti_plugins/cuda_shim.h>

namespace {

// A test compares them with the exported symbols.
const char* const kListed[] = {
#define AOTIP_SHIM(name) #name,
#include "cuda/exports/names.inc"
#undef AOTIP_SHIM
#define AOTIP_OPERATOR(shim, op, parameters) "aoti_torch_cuda_" #shim,
#define AOTIP_CUDA_OPERATOR AOTIP_OPERATOR
#include <aoti_plugins/operators.inc>
};

const aoti_plugins::ShimNames names(kListed);

}  // namespace

const char* const* aotip_cuda_shim_names(size_t* ret_count) {
  return names.list(ret_count);
}
