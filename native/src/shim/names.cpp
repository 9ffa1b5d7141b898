// The list of shims that this library provides.

#include "shim/names.h"

#include <aoti_plugins/shim.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
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

const aoti_plugins::ShimNames names(kListed);

}  // namespace

const char* const* aotip_shim_names(size_t* ret_count) {
  return names.list(ret_count);
}

namespace aoti_plugins {
namespace {

/// One list per library: of the CPU, and of each other device.
struct List {
  std::atomic<const char* const*> names{nullptr};
  size_t count = 0;
};

constexpr size_t kMaxLists = 8;
List lists[kMaxLists];
std::atomic<size_t> list_count{0};

}  // namespace

bool has_shim(const char* name) noexcept {
  return std::any_of(std::begin(lists), std::end(lists), [name](const List& list) {
    const char* const* listed = list.names.load(std::memory_order_acquire);
    return listed != nullptr &&
           std::binary_search(listed, listed + list.count, std::string_view(name),
                              std::less<std::string_view>());
  });
}

void register_shims(const char* const* names, size_t count) noexcept {
  const size_t index = list_count.fetch_add(1, std::memory_order_relaxed);
  if (index < kMaxLists) {
    lists[index].count = count;
    lists[index].names.store(names, std::memory_order_release);
  }
}

}  // namespace aoti_plugins
