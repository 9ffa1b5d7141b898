#pragma once

#include <executorch/runtime/backend/interface.h>

#include "delegate/delegate_device.h"
#include "slim/export.h"

namespace aoti_plugins {

/// ExecuTorch's view of the delegate for one device; each library registers one.
class AOTIP_CORE DelegateBackend : public ::executorch::runtime::BackendInterface {
 public:
  /// @param id the name that programs ask for.
  DelegateBackend(const char* id, const DelegateDevice& device) noexcept
      : id_(id), device_(device) {}

  bool is_available() const override;

  ::executorch::runtime::Result<::executorch::runtime::DelegateHandle*> init(
      ::executorch::runtime::BackendInitContext& context,
      ::executorch::runtime::FreeableBuffer* processed,
      ::executorch::runtime::ArrayRef<::executorch::runtime::CompileSpec> compile_specs)
      const override;

  ::executorch::runtime::Error execute(
      ::executorch::runtime::BackendExecutionContext& context,
      ::executorch::runtime::DelegateHandle* handle,
      ::executorch::runtime::Span<::executorch::runtime::EValue*> args) const override;

  void destroy(::executorch::runtime::DelegateHandle* handle) const override;

 protected:
  /// Keeps and logs the reason of this thread's failure; `method` may be null.
  void report(const char* stage, const char* method) const noexcept;

 private:
  const char* id_;
  const DelegateDevice& device_;
};

}  // namespace aoti_plugins
