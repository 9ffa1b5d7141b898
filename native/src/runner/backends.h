#pragma once

#include <executorch/runtime/executor/method_meta.h>

#include <cstdint>

namespace aoti_plugins::runner {

/// ExecuTorch's own backend for CUDA, for which our library stands in.
constexpr const char* kUpstreamCudaId = "CudaBackend";

/// Sees to it that a method's backends are there before it is loaded: libraries of ours stand in
/// for those that they can and that nobody has registered. 0, or a code after `failed()`.
///
/// @param ret_takes_cuda whether one of them is ours and takes and gives memory of GPUs
int32_t provide_backends(const ::executorch::runtime::MethodMeta& meta, const char* method,
                         bool* ret_takes_cuda);

}  // namespace aoti_plugins::runner
