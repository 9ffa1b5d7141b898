// The list of shims that this library provides.

#include "shim/names.h"

#include <aoti_plugins/shim.h>

#include <algorithm>
#include <atomic>
#include <string_view>

namespace {

// A test compares them with the exported symbols.
const char* const kListed[] = {
#define AOTIP_SHIM(name) #name,
#include "shim/names.inc"
#undef AOTIP_SHIM
#ifdef AOTIP_WITHOUT_CPU_KERNELS
    "aoti_torch_cpu_view_as_real",
    "aoti_torch_cpu_view_dtype",
#else
#define AOTIP_OPERATOR(shim, op, parameters) "aoti_torch_cpu_" #shim,
#define AOTIP_CPU_OPERATOR AOTIP_OPERATOR
#include <aoti_plugins/operators.inc>
#endif
};

const auto& names() {
  static const auto sorted = aoti_plugins::sorted_names(kListed);
  return sorted;
}

}  // namespace

const char* const* aotip_shim_names(size_t* ret_count) {
  if (ret_count != nullptr) {
    *ret_count = names().size();
  }
  return names().data();
}

namespace aoti_plugins {
namespace {

/// One list per library; there are as many as devices.
struct List {
  std::atomic<const char* const*> names{nullptr};
  size_t count = 0;
};

constexpr size_t kMaxLists = 8;
List lists[kMaxLists];
std::atomic<size_t> list_count{0};

bool contains(const char* const* names, size_t count, std::string_view name) {
  return std::binary_search(names, names + count, name,
                            [](std::string_view a, std::string_view b) { return a < b; });
}

}  // namespace

bool has_shim(const char* name) noexcept {
  if (contains(names().data(), names().size(), name)) {
    return true;
  }
  for (List& list : lists) {
    const char* const* names = list.names.load(std::memory_order_acquire);
    if (names != nullptr && contains(names, list.count, name)) {
      return true;
    }
  }
  return false;
}

void register_shims(const char* const* names, size_t count) noexcept {
  const size_t index = list_count.fetch_add(1, std::memory_order_relaxed);
  if (index < kMaxLists) {
    lists[index].count = count;
    lists[index].names.store(names, std::memory_order_release);
  }
}

}  // namespace aoti_plugins
