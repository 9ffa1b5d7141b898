#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "slim/export.h"
#include "slim/status.h"

namespace aoti_plugins::ranks {

/// How long a rank waits for the others where nobody says otherwise.
inline constexpr double kDefaultTimeoutSeconds = 300;

/// Which of several processes this one is, and where they meet.
struct Place {
  int32_t rank = 0;
  int32_t world_size = 1;
  int32_t local_rank = 0;  ///< among the processes of this machine: which GPU is its own
  std::string meeting;     ///< equal on all ranks of one start, and on no others of this machine
  std::chrono::duration<double> timeout{kDefaultTimeoutSeconds};
};

/// The place that `set_place()` was given, or else that the environment says: RANK, WORLD_SIZE,
/// LOCAL_RANK, MASTER_ADDR and MASTER_PORT as torchrun sets them, or Open MPI's or PMI's numbers,
/// with AOTI_PLUGINS_RANK_MEETING, a path, as the meeting, and AOTI_PLUGINS_RANK_TIMEOUT in
/// seconds. What the environment does not say is looked for in the file that
/// AOTI_PLUGINS_RANK_FILE names, of lines NAME=VALUE. Fails, with a reason that says what to set,
/// where that is not enough.
AOTIP_CORE Status find_place(Place* ret) noexcept;

/// Says the place of this process, whatever the environment says. Takes effect until ranks meet.
AOTIP_CORE Status set_place(const Place& place) noexcept;

}  // namespace aoti_plugins::ranks
