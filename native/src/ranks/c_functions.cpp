// The C functions about ranks.

#include <aoti_plugins/delegate.h>

#include <exception>

#include "delegate/delegate_backend.h"
#include "ranks/collectives.h"
#include "ranks/place.h"
#include "ranks/world.h"

using namespace aoti_plugins;

namespace {

int32_t code_of(Status status) {
  if (status != Status::kOk) {
    keep_delegate_error(last_failure());
  }
  return status == Status::kOk ? 0 : 1;
}

}  // namespace

int32_t aotip_set_rank(int32_t rank, int32_t world_size, int32_t local_rank, const char* meeting,
                       double timeout_seconds) {
  try {
    ranks::Place place;
    place.rank = rank;
    place.world_size = world_size;
    place.local_rank = local_rank;
    place.meeting = meeting != nullptr ? meeting : "";
    place.timeout = std::chrono::duration<double>(timeout_seconds);
    return code_of(ranks::set_place(place));
  } catch (const std::exception& error) {
    return code_of(fail("%s", error.what()));
  }
}

int32_t aotip_broadcast_from_rank_0(void* data, size_t nbytes) {
  if (data == nullptr && nbytes > 0) {
    return code_of(fail("data is null"));
  }
  ranks::World* world = ranks::world();
  return code_of(world != nullptr
                     ? ranks::broadcast(*world, world->everyone(), 0, nbytes, data, data, true)
                     : Status::kFailed);
}
