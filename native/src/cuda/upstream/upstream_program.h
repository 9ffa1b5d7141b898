#pragma once

#include <executorch/runtime/backend/interface.h>

#include <cstddef>

#include "delegate/payload.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Reads what ExecuTorch's own CUDA backend stores for a delegate. There are three generations:
///
/// - nothing; blob and weights are in named data as `<method>_so_blob` and `<method>_weights_blob`,
///   where the compile spec `method_name` names the method,
/// - two lines, the keys of blob and weights, which are digests of their content,
/// - the list of weights of executorch 1.5 (upstream_weights.h).
///
/// In the first two, all weights are one blob in the order of the model's constants.
Status read_upstream_program(
    const ::executorch::runtime::BackendInitContext& context, const void* data, size_t nbytes,
    ::executorch::runtime::ArrayRef<::executorch::runtime::CompileSpec> specs,
    Payload* ret) noexcept;

}  // namespace aoti_plugins::cuda
