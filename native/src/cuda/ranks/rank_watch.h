#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

#include "ranks/world.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// From here on a thread looks whether the calls of this process for several ranks come to their
/// end: where a rank ends, or is not done within the time limit, it ends the ranks' world and lets
/// kernels return that wait for other ranks.
///
/// @param gpu the GPU of this rank, whose context is current. Fails for another than before.
/// @param ret_stop a word of the host that the GPU sees: 0 until nobody should wait any more.
Status watch_rank(ranks::World& world, int32_t gpu, const int32_t** ret_stop) noexcept;

/// What else lets kernels return. Called once, when the word says so; it may wait for the GPU.
using LetGo = std::function<void()>;

/// As `watch_rank`, and calls this when the world is over.
Status watch_rank(ranks::World& world, int32_t gpu, LetGo let_go) noexcept;

/// Ends the world for this thread's last failure, with this rank's number.
Status end_for_last_failure(ranks::World& world) noexcept;

/// A call of a program for several ranks begins on this rank. Its work comes after that of the
/// call before, on whatever stream.
Status begin_rank_call(int32_t gpu, CUstream stream) noexcept;

/// The work of such a call has been given to a stream.
Status end_rank_call(int32_t gpu, CUstream stream) noexcept;

/// Such a call is over, however it ended, and nobody waits for its work.
void leave_rank_call() noexcept;

/// Fails, with the reason, where the ranks' world is over: what the GPU computed is not right then.
Status check_ranks() noexcept;

}  // namespace aoti_plugins::cuda
