#pragma once

#include <cstdint>

#include "slim/export.h"
#include "slim/status.h"

namespace aoti_plugins::ranks {

/// The most ranks of a program.
inline constexpr int32_t kMaxRanks = 64;

/// Ranks that differ only in one dim of a mesh: rank r is with those of first + i * stride, at the
/// place r / stride % size. As aoti_plugins/parallel/groups.py.
struct Group {
  int64_t world_size = 1;
  int64_t size = 1;
  int64_t stride = 1;

  /// Fails, with a reason, where such groups do not divide the ranks.
  AOTIP_CORE Status check() const noexcept;

  int32_t place(int32_t rank) const noexcept { return static_cast<int32_t>(rank / stride % size); }

  /// The rank at a place of the group that `rank` is in.
  int32_t member(int32_t rank, int32_t at) const noexcept {
    return static_cast<int32_t>(rank + (at - place(rank)) * stride);
  }

  /// A number for groups of this form, the same on all ranks, below `count()`.
  AOTIP_CORE int32_t index() const noexcept;

  /// How many forms of groups there are among some ranks.
  AOTIP_CORE static int32_t count(int64_t world_size) noexcept;
};

}  // namespace aoti_plugins::ranks
