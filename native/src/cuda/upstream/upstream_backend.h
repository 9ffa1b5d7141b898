#pragma once

#include "delegate/delegate_backend.h"

namespace aoti_plugins::cuda {

/// Runs the programs of ExecuTorch's own CUDA backend. What is not about reading them is as in
/// AotiCudaBackend.
class UpstreamBackend final : public DelegateBackend {
 public:
  /// The id that these programs ask for.
  static constexpr char kId[] = "CudaBackend";

  explicit UpstreamBackend(const DelegateDevice& device) noexcept : DelegateBackend(kId, device) {}

  /// Sets the options that AotiCudaBackend has, too. Others are upstream's: they choose among ways
  /// of its own to the same results, so they are logged and left.
  ::executorch::runtime::Error set_option(
      ::executorch::runtime::BackendOptionContext& context,
      const ::executorch::runtime::Span<::executorch::runtime::BackendOption>& options) override;

 protected:
  Status read(const ::executorch::runtime::BackendInitContext& context, const void* bytes,
              size_t nbytes,
              ::executorch::runtime::ArrayRef<::executorch::runtime::CompileSpec> specs,
              Payload* ret) const override;

  /// As for `set_option()`.
  LoadOptions load_options(const ::executorch::runtime::BackendInitContext& context) const override;
};

}  // namespace aoti_plugins::cuda
