#pragma once

namespace aoti_plugins::cuda {

/// Tells ExecuTorch how to get memory of GPUs, so that programs can plan inputs, outputs and what
/// delegates pass to each other there. Does nothing where another library has told it already.
void register_planned_memory() noexcept;

}  // namespace aoti_plugins::cuda
