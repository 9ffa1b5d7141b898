#pragma once

#include <executorch/runtime/core/function_ref.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "slim/export.h"

namespace aoti_plugins::cpu {

/// What was made from constants, for as long as they are there.
class AOTIP_CORE Derived {
 public:
  virtual ~Derived();
};

/// Memory whose bytes stay as they are while this object lives; what was derived from them goes
/// with it.
class AOTIP_CORE ConstantMemory {
 public:
  /// Says so of `nbytes` at `data`. Throws std::bad_alloc.
  ConstantMemory(const void* data, size_t nbytes);
  ~ConstantMemory();
  ConstantMemory(const ConstantMemory&) = delete;
  ConstantMemory& operator=(const ConstantMemory&) = delete;

 private:
  const void* data_;
};

/// Bytes that something is derived from.
struct SourceBytes {
  const void* data = nullptr;  ///< null for none
  size_t nbytes = 0;
};

/// What names something derived: what it is, from which bytes, with which numbers.
struct DerivedKey {
  int32_t kind = 0;
  SourceBytes sources[3] = {};
  std::array<int64_t, 16> numbers{};

  bool operator<(const DerivedKey& other) const;
};

/// What `make` derived in this call or an earlier one; null where not all sources are constant, and
/// for good where it returned null or memory ran out: callers have another way. Calls of other
/// threads wait while `make` runs.
AOTIP_CORE std::shared_ptr<Derived> derive(
    const DerivedKey& key,
    ::executorch::runtime::FunctionRef<std::shared_ptr<Derived>()> make) noexcept;

}  // namespace aoti_plugins::cpu
