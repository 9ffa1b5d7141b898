#pragma once

#include <cstdint>
#include <vector>

#include "ranks/descriptor.h"
#include "ranks/place.h"
#include "slim/status.h"

namespace aoti_plugins::ranks {

/// What ranks have of each other once they met.
struct Met {
  Descriptor memory;                 ///< a file in memory that all have
  Descriptor own_life;               ///< this process's end of a pipe: open as long as it lives
  std::vector<Descriptor> lives;     ///< of each rank; hung up when its process ends
  std::vector<int32_t> process_ids;  ///< of each rank
};

/// Waits until all ranks of a place are there, and gives them a file of `nbytes` in memory. Rank 0
/// waits at a socket whose name comes from the meeting's, the others come to it. Only processes of
/// one user meet.
///
/// Fails within the place's time limit on every rank that came, and says which one did not come,
/// ended, is there twice or counts other ranks.
Status meet(const Place& place, size_t nbytes, Met* ret) noexcept;

}  // namespace aoti_plugins::ranks
