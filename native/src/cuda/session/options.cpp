#include "cuda/session/options.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/memory/memory_pool.h"
#include "cuda/ops/tf32.h"
#include "delegate/payload.h"
#include "ops/random.h"

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

enum GraphsMode : int { kNever = 0, kAsProgram = 1, kAlways = 2 };

std::atomic<int> graphs_mode{kAsProgram};
std::atomic<bool> own_streams{false};

}  // namespace

Status wants_graphs(uint32_t flags, LoadOptions specs, bool* ret) noexcept {
  const int mode = graphs_mode.load(std::memory_order_relaxed);
  *ret = mode == kAsProgram ? (flags & kCudaGraphs) != 0 : mode == kAlways;
  for (const auto& spec : specs) {
    const bool* wanted = std::get_if<bool>(&spec.value);
    AOTIP_CHECK(std::strncmp(spec.key, kGraphsOption, sizeof(spec.key)) == 0 && wanted != nullptr,
                "a program cannot be loaded with option '%.*s' of this kind, the options are: "
                "%s (bool), %s (int)",
                static_cast<int>(sizeof(spec.key)), spec.key, kGraphsOption, kSharedStateOption);
    *ret = *wanted;
  }
  return Status::kOk;
}

bool uses_own_streams() noexcept {
  return own_streams.load(std::memory_order_relaxed);
}

const std::vector<DelegateOption>& options() noexcept {
  static const auto* all = new std::vector<DelegateOption>{
      {"memory_limit_mib", memory_limit, set_memory_limit, "0 or more, 0 for no limit"},
      {"allow_tf32", [] { return Value(allows_tf32()); },
       [](const Value& value) {
         allow_tf32(std::get<bool>(value));
         return true;
       },
       ""},
      {kGraphsOption, [] { return Value(graphs_mode.load(std::memory_order_relaxed)); },
       [](const Value& value) {
         const int mode = std::get<int>(value);
         if (mode < kNever || mode > kAlways) {
           return false;
         }
         graphs_mode.store(mode, std::memory_order_relaxed);
         return true;
       },
       "0 never, 1 where the program asks for it, 2 always"},
      {"seed", [] { return Value(ops::random_seed()); },
       [](const Value& value) {
         ops::set_random_seed(std::get<int>(value));
         return true;
       },
       ""},
      {"own_streams", [] { return Value(uses_own_streams()); },
       [](const Value& value) {
         own_streams.store(std::get<bool>(value), std::memory_order_relaxed);
         return true;
       },
       ""},
  };
  return *all;
}

}  // namespace aoti_plugins::cuda
