#pragma once

#include <optional>

#include "cuda/driver/gpu.h"
#include "cuda/kernels/experts.h"
#include "cuda/kernels/streamed_row.h"
#include "cuda/ops/one_row.h"

namespace aoti_plugins::cuda {

/// How a kernel that has the weight run through shared memory divides it; none where there is no
/// such kernel. There is one for bfloat16 on GPUs that copy by themselves, for weights without
/// zeros, with scales as x; of 4 bits in groups of 32 to 128, of 8 bits with a scale for each row.
/// And for weights of 4 bits in groups of 32 with zeros that are added, both float16, on GPUs
/// of 9.0.
std::optional<StreamedShape> streamed_shape(const Gpu& gpu, const OneRowKind& kind,
                                            const OneRowProduct& product) noexcept;

/// One kernel, launched early on this thread's current stream.
Status streamed_row(const Gpu& gpu, const OneRowKind& kind, StreamedShape shape,
                    OneRowProduct& product) noexcept;

/// How the same kernel divides matrices of experts, of 4 bits; `n` and `k` are of all of them.
std::optional<StreamedShape> streamed_experts_shape(const Gpu& gpu,
                                                    const ExpertProduct& product) noexcept;

/// One kernel on this thread's current stream; launched early if `is_constant`: no kernel writes
/// the norm's factors.
Status streamed_experts(const Gpu& gpu, bool is_constant, StreamedShape shape,
                        ExpertProduct& product) noexcept;

/// The same for a weight of 16 bits as it lies: on GPUs that copy by themselves, for rows of a
/// multiple of 32 elements.
std::optional<StreamedShape> streamed_halves_shape(const Gpu& gpu,
                                                   const OneRowProduct& product) noexcept;

/// One kernel, likewise. `kind`: "bf16" or "f16".
Status streamed_halves(const Gpu& gpu, const char* kind, bool is_constant, StreamedShape shape,
                       OneRowProduct& product) noexcept;

}  // namespace aoti_plugins::cuda
