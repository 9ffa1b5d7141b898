// The list of shims that the MPS library provides.

#include "shim/names.h"

#include <aoti_plugins/mps_shim.h>

namespace {

// A test compares them with the exported symbols.
const char* const kListed[] = {
#define AOTIP_SHIM(name) #name,
#include "mps/exports/names.inc"
#undef AOTIP_SHIM
#define AOTIP_OPERATOR(shim, op, parameters) "aoti_torch_mps_" #shim,
#define AOTIP_MPS_OPERATOR AOTIP_OPERATOR
#include <aoti_plugins/operators.inc>
};

const aoti_plugins::ShimNames names(kListed);

}  // namespace

const char* const* aotip_mps_shim_names(size_t* ret_count) {
  return names.list(ret_count);
}
