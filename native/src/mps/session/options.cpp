#include "mps/session/options.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>
#include <exception>

#include "mps/memory/buffer_pool.h"
#include "ops/random.h"

namespace aoti_plugins::mps {
namespace {

using Value = DelegateOption::Value;

constexpr size_t kMib = size_t{1} << 20;

int in_mib(size_t nbytes) {
  return static_cast<int>(std::min<size_t>(nbytes / kMib, INT_MAX));
}

Value memory_limit() {
  const size_t limit = BufferPool::instance().limit();
  return limit == SIZE_MAX ? 0 : in_mib(limit);
}

bool set_memory_limit(const Value& value) {
  const int mib = std::get<int>(value);
  if (mib < 0) {
    return false;
  }
  BufferPool::instance().set_limit(mib == 0 ? SIZE_MAX : static_cast<size_t>(mib) * kMib);
  return true;
}

bool set_kept_memory(const Value& value) {
  const int mib = std::get<int>(value);
  if (mib < 0) {
    return false;
  }
  BufferPool::instance().set_bound(static_cast<size_t>(mib) * kMib);
  return true;
}

}  // namespace

const std::vector<DelegateOption>& options() noexcept {
  static const auto* all = new std::vector<DelegateOption>{
      {"memory_limit_mib", memory_limit, set_memory_limit, "0 or more, 0 for no limit"},
      {"kept_memory_mib", [] { return Value(in_mib(BufferPool::instance().bound())); },
       set_kept_memory, "0 or more"},
      {"seed", [] { return Value(ops::random_seed()); },
       [](const Value& value) {
         ops::set_random_seed(std::get<int>(value));
         return true;
       },
       "what the random numbers to come are made from"},
  };
  return *all;
}

Status check_load_options(LoadOptions options) noexcept {
  AOTIP_CHECK(options.empty(),
              "a program for mps cannot be loaded with option '%.*s', the options are: %s (int)",
              static_cast<int>(sizeof(options[0].key)), options[0].key, kSharedStateOption);
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
