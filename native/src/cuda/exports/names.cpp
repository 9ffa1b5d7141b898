// The list of shims that the CUDA library provides.

#include "shim/names.h"

#include <aoti_plugins/cuda_shim.h>

namespace {

// Sorted; a test compares it with the exported symbols.
const char* const kNames[] = {
#define AOTIP_SHIM(name) #name,
#include "cuda/exports/names.inc"
#undef AOTIP_SHIM
};
constexpr size_t kCount = sizeof(kNames) / sizeof(kNames[0]);

[[maybe_unused]] const bool registered = (aoti_plugins::register_shims(kNames, kCount), true);

}  // namespace

const char* const* aotip_cuda_shim_names(size_t* ret_count) {
  if (ret_count != nullptr) {
    *ret_count = kCount;
  }
  return kNames;
}
