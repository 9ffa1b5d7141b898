#pragma once

#include <cstdint>

#include "cuda/kernels/peer_collectives.h"
#include "ranks/group.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Memory that the ranks of a group write to, which all of them make together on first use, outside
/// of a capture. It lives as long as the process. Null on all ranks where one cannot reach
/// another's memory, or has set NCCL_P2P_DISABLE; that is logged, and NCCL does all.
///
/// @param gpu the GPU of this rank, whose context is current; the same in every call.
Status peer_memory_of(const ranks::Group& group, int32_t gpu, const PeerMemory** ret) noexcept;

}  // namespace aoti_plugins::cuda
