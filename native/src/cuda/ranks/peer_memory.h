#pragma once

#include <cstdint>

#include "cuda/kernels/peer_collectives.h"
#include "ranks/group.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// What memory that ranks write to each other's is for, and so how it is laid out.
enum class PeerUse : int32_t { kPackets, kPieces };

/// Such memory of a group of ranks, which all of them make together on first use, outside of a
/// capture. It lives as long as the process. Null on all ranks where one cannot reach another's
/// memory, or has set NCCL_P2P_DISABLE; that is logged, and NCCL does it.
///
/// @param gpu the GPU of this rank, whose context is current; the same in every call.
Status peer_memory_of(const ranks::Group& group, int32_t gpu, PeerUse use,
                      const PeerMemory** ret) noexcept;

}  // namespace aoti_plugins::cuda
