#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

#include "ranks/world.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Lets kernels that wait for other ranks return; called once, when the ranks' world is over.
using LetGo = std::function<void()>;

/// From here on a thread looks whether the work of this process for several ranks comes to its end:
/// where a rank ends, or is not done within the time limit, it ends the ranks' world and lets go.
///
/// @param gpu the GPU of this rank, whose context is current. Fails for another than before.
Status watch_rank(ranks::World& world, int32_t gpu, LetGo let_go) noexcept;

/// A call of a program for several ranks begins on this rank. Its work comes after that of the
/// call before, on whatever stream.
Status begin_rank_call(int32_t gpu, CUstream stream) noexcept;

/// The work of such a call has been given to a stream.
Status end_rank_call(int32_t gpu, CUstream stream) noexcept;

/// Fails, with the reason, where the ranks' world is over: what the GPU computed is not right then.
Status check_ranks() noexcept;

}  // namespace aoti_plugins::cuda
