#pragma once

#include "cuda/driver/gpu.h"
#include "cuda/ops/one_row.h"

namespace aoti_plugins::cuda {

/// Whether there is a kernel that has the weight run through shared memory: for bfloat16 on GPUs
/// that copy by themselves, weights without zeros, scales as x; of 4 bits in groups of 32 to 128,
/// of 8 bits with a scale for each row.
bool can_stream(const Gpu& gpu, const OneRowKind& kind, const OneRowProduct& product) noexcept;

/// One kernel, launched early on this thread's current stream.
Status streamed_row(const Gpu& gpu, const OneRowKind& kind, OneRowProduct& product) noexcept;

}  // namespace aoti_plugins::cuda
