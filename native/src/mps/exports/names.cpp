// The list of shims that the MPS library provides.

#include "shim/names.h"

#include <aoti_plugins/mps_shim.h>

namespace {

// Sorted; a test compares it with the exported symbols.
const char* const kNames[] = {
#define AOTIP_SHIM(name) #name,
#include "mps/exports/names.inc"
#undef AOTIP_SHIM
};
constexpr size_t kCount = sizeof(kNames) / sizeof(kNames[0]);

[[maybe_unused]] const bool registered = (aoti_plugins::register_shims(kNames, kCount), true);

}  // namespace

const char* const* aotip_mps_shim_names(size_t* ret_count) {
  if (ret_count != nullptr) {
    *ret_count = kCount;
  }
  return kNames;
}
