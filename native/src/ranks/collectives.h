#pragma once

#include <cstddef>
#include <cstdint>

#include "ranks/world.h"
#include "slim/status.h"

namespace aoti_plugins::ranks {

/// How elements of ranks become one; must match aoti_plugins/parallel/ops.py.
enum class Reduction : int64_t { kSum = 0, kAverage = 1, kMinimum = 2, kMaximum = 3, kProduct = 4 };

/// Fails for a number that stands for none, and for a dtype that is not reduced.
AOTIP_CORE Status check_reduction(int64_t reduction, int32_t dtype) noexcept;

/// Collectives over memory of the host, any size, in pieces. Elements lie one behind the other.
/// `in` and `out` may be the same only in `all_reduce` and `broadcast`.

Status all_reduce(World& world, const Group& group, Reduction reduction, int32_t dtype,
                  int64_t numel, const void* in, void* out) noexcept;

/// `nbytes` of each rank to `group.size * nbytes`.
AOTIP_CORE Status all_gather(World& world, const Group& group, size_t nbytes, const void* in,
                             void* out) noexcept;

/// `group.size * numel` of each rank to `numel`.
Status reduce_scatter(World& world, const Group& group, Reduction reduction, int32_t dtype,
                      int64_t numel, const void* in, void* out) noexcept;

/// For each member in turn, so many bytes of `in` to it, and so many of it to `out`.
Status all_to_all(World& world, const Group& group, const size_t* in_nbytes, const void* in,
                  const size_t* out_nbytes, void* out) noexcept;

/// `nbytes` of the member at place `source` to all; where `patient`, the others wait for it without
/// a time limit.
AOTIP_CORE Status broadcast(World& world, const Group& group, int32_t source, size_t nbytes,
                            const void* in, void* out, bool patient = false) noexcept;

}  // namespace aoti_plugins::ranks
