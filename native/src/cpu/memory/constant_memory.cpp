#include "cpu/memory/constant_memory.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <vector>

namespace aoti_plugins::cpu {
namespace {

struct Range {
  const char* end;
  int64_t uses;  // storages without bytes of their own may be told of twice
};

struct Registry {
  std::shared_mutex mutex;
  std::map<const char*, Range> ranges;  // by their beginning
  std::map<DerivedKey, std::shared_ptr<Derived>> derived;
};

/// Never destroyed: programs may end after the statics of this library.
Registry& registry() {
  static Registry* instance = new Registry();
  return *instance;
}

bool is_inside(const void* address, const char* begin, const char* end) {
  return address >= begin && address < end;
}

bool is_constant(const Registry& r, const SourceBytes& source) {
  const char* begin = static_cast<const char*>(source.data);
  const auto next = r.ranges.upper_bound(begin);
  return next != r.ranges.begin() && begin + source.nbytes <= std::prev(next)->second.end;
}

/// The order of keys: nearly always the first address decides.
auto as_tuple(const DerivedKey& key) {
  const auto& s = key.sources;
  return std::tie(s[0].data, key.kind, s[1].data, s[2].data, s[0].nbytes, s[1].nbytes, s[2].nbytes,
                  key.numbers);
}

}  // namespace

Derived::~Derived() = default;

ConstantMemory::ConstantMemory(const void* data, size_t nbytes) : data_(data) {
  if (nbytes == 0) {
    data_ = nullptr;
    return;
  }
  const char* begin = static_cast<const char*>(data);
  Registry& r = registry();
  const std::unique_lock<std::shared_mutex> lock(r.mutex);
  Range& range = r.ranges.try_emplace(begin, Range{begin + nbytes, 0}).first->second;
  range.end = std::max(range.end, begin + nbytes);
  ++range.uses;
}

ConstantMemory::~ConstantMemory() {
  if (data_ == nullptr) {
    return;
  }
  std::vector<std::shared_ptr<Derived>> gone;  // destroyed without the lock
  {
    Registry& r = registry();
    const std::unique_lock<std::shared_mutex> lock(r.mutex);
    const auto found = r.ranges.find(static_cast<const char*>(data_));
    if (found == r.ranges.end() || --found->second.uses > 0) {
      return;
    }
    const auto [begin, range] = *found;
    r.ranges.erase(found);
    for (auto it = r.derived.begin(); it != r.derived.end();) {
      const auto& sources = it->first.sources;
      const bool uses =
          std::any_of(std::begin(sources), std::end(sources),
                      [&](const SourceBytes& s) { return is_inside(s.data, begin, range.end); });
      if (uses) {
        gone.push_back(std::move(it->second));
        it = r.derived.erase(it);
      } else {
        ++it;
      }
    }
  }
}

bool DerivedKey::operator<(const DerivedKey& other) const {
  return as_tuple(*this) < as_tuple(other);
}

std::shared_ptr<Derived> derive(
    const DerivedKey& key,
    ::executorch::runtime::FunctionRef<std::shared_ptr<Derived>()> make) noexcept {
  Registry& r = registry();
  {
    const std::shared_lock<std::shared_mutex> lock(r.mutex);
    const auto found = r.derived.find(key);
    if (found != r.derived.end()) {
      return found->second;
    }
    for (const SourceBytes& source : key.sources) {
      if (source.data != nullptr && !is_constant(r, source)) {
        return nullptr;
      }
    }
  }
  try {
    const std::unique_lock<std::shared_mutex> lock(r.mutex);
    auto [it, is_new] = r.derived.try_emplace(key);
    if (is_new) {
      it->second = make();
    }
    return it->second;
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace aoti_plugins::cpu
