#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/libraries/nccl.h"
#include "ranks/group.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// NCCL's communicator of a group of ranks, which all its ranks make together on first use, outside
/// of a capture. It lives as long as the process.
///
/// @param gpu the GPU of this rank, whose context is current; the same in every call.
Status communicator_of(const ranks::Group& group, int32_t gpu, nccl::Comm* ret) noexcept;

/// A call of a program for several ranks begins on this rank.
void begin_rank_call() noexcept;

/// The work of such a call has been given to a stream. From here on a thread looks whether it comes
/// to an end: where a rank ends, or is not done within the time limit, it ends the ranks' world and
/// takes the communicators from the GPU, so that nobody waits for it forever.
Status end_rank_call(int32_t gpu, CUstream stream) noexcept;

/// Fails, with the reason, where the ranks' world is over: what the GPU computed is not right then.
Status check_ranks() noexcept;

}  // namespace aoti_plugins::cuda
