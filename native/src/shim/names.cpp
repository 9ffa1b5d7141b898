// The list of shims that this library provides.

#include "shim/names.h"

#include <aoti_plugins/shim.h>

#include <algorithm>
#include <string_view>

namespace {

// Sorted; a test compares it with the exported symbols.
const char* const kNames[] = {
#define AOTIP_SHIM(name) #name,
#include "shim/names.inc"
#undef AOTIP_SHIM
};
constexpr size_t kCount = sizeof(kNames) / sizeof(kNames[0]);

}  // namespace

const char* const* aotip_shim_names(size_t* ret_count) {
  if (ret_count != nullptr) {
    *ret_count = kCount;
  }
  return kNames;
}

namespace aoti_plugins {

bool has_shim(const char* name) noexcept {
  return std::binary_search(kNames, kNames + kCount, std::string_view(name),
                            [](std::string_view a, std::string_view b) { return a < b; });
}

}  // namespace aoti_plugins
