#pragma once

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

}  // namespace aoti_plugins::cuda
