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

const auto& names() {
  static const auto sorted = aoti_plugins::sorted_names(kListed);
  return sorted;
}

[[maybe_unused]] const bool registered =
    (aoti_plugins::register_shims(names().data(), names().size()), true);

}  // namespace

const char* const* aotip_mps_shim_names(size_t* ret_count) {
  if (ret_count != nullptr) {
    *ret_count = names().size();
  }
  return names().data();
}
