#pragma once

#include <string>
#include <vector>

#include "cuda/driver/gpu.h"
#include "delegate/payload.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// How well a target's code suits a GPU; what does not run there has no fit.
///
/// Features, as aoti_plugins/cuda writes them: `sm_NN`, a cubin for GPUs with its major and at
/// least its minor compute capability; `sm_NNa`, a cubin for exactly this one; `compute_NN`, PTX
/// for all from this one on; `shared_memory_N`, a block needs N bytes. One sm_ or compute_ must
/// fit, and everything else must; an unknown feature does not.
enum class TargetFit : int32_t { kNone = 0, kPtx = 1, kSameMajor = 100, kExact = 1000 };

/// Fit of a target, with the minor compute capability (kSameMajor) added so that the better of two
/// targets has the larger number.
int32_t target_fit(const TargetArtifact& target, const Gpu& gpu);

/// Picks the target that suits a GPU best, the first of equals. The reason of a failure lists what
/// the program was made for and which GPUs `all` are here.
Status choose_gpu_target(const Payload& payload, const Gpu& gpu, const std::vector<Gpu>& all,
                         const TargetArtifact** ret) noexcept;

}  // namespace aoti_plugins::cuda
