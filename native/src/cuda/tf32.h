#pragma once

namespace aoti_plugins::cuda {

/// Whether float32 products and convolutions may round their operands to TF32, as PyTorch's
/// allow_tf32: the last `allow_tf32()`, or else AOTI_PLUGINS_ALLOW_TF32=1.
bool allows_tf32() noexcept;
void allow_tf32(bool value) noexcept;

}  // namespace aoti_plugins::cuda
