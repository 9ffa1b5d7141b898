#include "cuda/options.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>

#include "cuda/memory_pool.h"
#include "cuda/tf32.h"

namespace aoti_plugins::cuda {
namespace {

using Value = DelegateOption::Value;

constexpr size_t kMib = size_t{1} << 20;

Value memory_limit() {
  const size_t limit = MemoryPool::limit();
  return limit == SIZE_MAX ? 0 : static_cast<int>(std::min<size_t>(limit / kMib, INT_MAX));
}

bool set_memory_limit(const Value& value) {
  const int mib = std::get<int>(value);
  if (mib < 0) {
    return false;
  }
  MemoryPool::set_limit(mib == 0 ? SIZE_MAX : static_cast<size_t>(mib) * kMib);
  return true;
}

}  // namespace

const std::vector<DelegateOption>& options() noexcept {
  static const auto* all = new std::vector<DelegateOption>{
      {"memory_limit_mib", memory_limit, set_memory_limit, "0 or more, 0 for no limit"},
      {"allow_tf32", [] { return Value(allows_tf32()); },
       [](const Value& value) {
         allow_tf32(std::get<bool>(value));
         return true;
       },
       ""},
  };
  return *all;
}

}  // namespace aoti_plugins::cuda
