#include "ranks/group.h"

#include <cinttypes>

namespace aoti_plugins::ranks {
namespace {

/// Calls `found(size, stride)` for each form of groups, in an order that all ranks have.
template <typename Found>
void each_form(int64_t world_size, const Found& found) {
  for (int64_t size = 1; size <= world_size; ++size) {
    for (int64_t stride = 1; size * stride <= world_size; ++stride) {
      if (world_size % (size * stride) == 0) {
        found(size, stride);
      }
    }
  }
}

}  // namespace

Status Group::check() const noexcept {
  AOTIP_CHECK(world_size >= 1 && world_size <= kMaxRanks,
              "the program is for %" PRId64 " ranks, expected 1 to %d", world_size, kMaxRanks);
  AOTIP_CHECK(size >= 1 && stride >= 1 && size <= world_size && stride <= world_size &&
                  world_size % (size * stride) == 0,
              "groups of %" PRId64 " ranks with a stride of %" PRId64 " do not divide %" PRId64
              " ranks",
              size, stride, world_size);
  return Status::kOk;
}

int32_t Group::index() const noexcept {
  int32_t next = 0;
  int32_t found = 0;
  each_form(world_size, [&](int64_t a, int64_t b) {
    found = a == size && b == stride ? next : found;
    ++next;
  });
  return found;
}

int32_t Group::count(int64_t world_size) noexcept {
  int32_t next = 0;
  each_form(world_size, [&](int64_t, int64_t) { ++next; });
  return next;
}

}  // namespace aoti_plugins::ranks
