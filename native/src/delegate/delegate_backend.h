#pragma once

#include <executorch/runtime/backend/interface.h>

#include <string>

#include "delegate/delegate_device.h"
#include "slim/export.h"

namespace aoti_plugins {

/// Keeps a reason for `aotip_delegate_last_error`.
void keep_delegate_error(const char* reason) noexcept;

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

  /// Sets options of the device, all or none of them: an unknown name, a value of the wrong kind or
  /// out of range is an error whose reason lists the options.
  ::executorch::runtime::Error set_option(
      ::executorch::runtime::BackendOptionContext& context,
      const ::executorch::runtime::Span<::executorch::runtime::BackendOption>& options) override;

  /// Fills in the values of the options that are named. Entries without a name become the device's
  /// options, in order, names and values; those that are too many stay without a name.
  ::executorch::runtime::Error get_option(
      ::executorch::runtime::BackendOptionContext& context,
      ::executorch::runtime::Span<::executorch::runtime::BackendOption>& options) override;

 protected:
  /// Reads what a program stores for the delegate. This one reads our payload.
  virtual Status read(const ::executorch::runtime::BackendInitContext& context, const void* bytes,
                      size_t nbytes,
                      ::executorch::runtime::ArrayRef<::executorch::runtime::CompileSpec> specs,
                      Payload* ret) const;

  /// The options that the program is loaded with and that the device is to have.
  virtual LoadOptions load_options(const ::executorch::runtime::BackendInitContext& context) const;

  const DelegateDevice& device() const noexcept { return device_; }

  /// Keeps and logs the reason of this thread's failure; `method` may be null.
  void report(const char* stage, const char* method) const noexcept;

 private:
  /// Reads what a program stores, after its signatures have been checked where that is demanded.
  Status read_trusted(const ::executorch::runtime::BackendInitContext& context,
                      const ::executorch::runtime::FreeableBuffer& processed,
                      ::executorch::runtime::ArrayRef<::executorch::runtime::CompileSpec> specs,
                      Payload* ret) const noexcept;
  Status find_option(const ::executorch::runtime::BackendOption& named,
                     const DelegateOption** ret) const;
  std::string describe_options() const;
  ::executorch::runtime::Error fail_options(const char* stage) const noexcept;
  ::executorch::runtime::Error fail_value(const DelegateOption& option) const;

  const char* id_;
  const DelegateDevice& device_;
};

}  // namespace aoti_plugins
