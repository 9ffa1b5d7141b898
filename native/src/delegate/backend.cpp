// AotiCpuBackend: registers the delegate with ExecuTorch when this library is loaded.

#include <aoti_plugins/delegate.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include <cstdio>

#include "delegate/delegate.h"

namespace aoti_plugins {
namespace {

using ::executorch::runtime::ArrayRef;
using ::executorch::runtime::Backend;
using ::executorch::runtime::BackendExecutionContext;
using ::executorch::runtime::BackendInitContext;
using ::executorch::runtime::BackendInterface;
using ::executorch::runtime::CompileSpec;
using ::executorch::runtime::DelegateHandle;
using ::executorch::runtime::Error;
using ::executorch::runtime::EValue;
using ::executorch::runtime::FreeableBuffer;
using ::executorch::runtime::Result;
using ::executorch::runtime::Span;

/// Must match AotiCpuBackend in aoti_plugins/cpu/backend.py.
constexpr char kBackendId[] = "AotiCpuBackend";

thread_local char delegate_error[4352] = {};

/// Keeps and logs the reason of this thread's failure.
void report(const char* stage, const char* method) noexcept {
  std::snprintf(delegate_error, sizeof(delegate_error), "%s: %s of method '%s': %s", kBackendId,
                stage, method != nullptr && method[0] != '\0' ? method : "?", last_failure());
  ET_LOG(Error, "%s", delegate_error);
}

class AotiCpuBackend final : public BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               ArrayRef<CompileSpec> compile_specs) const override {
    (void)compile_specs;  // all they say is compiled in
    if (processed == nullptr) {
      (void)fail("the runtime gives no payload");
      report("init", context.get_method_name());
      return Error::InvalidArgument;
    }
    std::unique_ptr<Delegate> delegate =
        Delegate::create(processed->data(), processed->size(), context.get_named_data_map());
    if (delegate == nullptr) {
      report("init", context.get_method_name());
      return Error::DelegateInvalidCompatibility;
    }
    processed->Free();
    return static_cast<DelegateHandle*>(delegate.release());
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                Span<EValue*> args) const override {
    (void)context;
    if (handle == nullptr) {
      (void)fail("the handle is null");
      report("execute", nullptr);
      return Error::DelegateInvalidHandle;
    }
    Delegate* delegate = static_cast<Delegate*>(handle);
    if (delegate->execute(args) != Status::kOk) {
      report("execute", delegate->method().c_str());
      return Error::InvalidArgument;
    }
    return Error::Ok;
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Delegate*>(handle); }
};

AotiCpuBackend backend;
[[maybe_unused]] const Error registered =
    ::executorch::runtime::register_backend(Backend{kBackendId, &backend});

}  // namespace
}  // namespace aoti_plugins

const char* aotip_delegate_last_error(void) {
  return aoti_plugins::delegate_error;
}

void aotip_delegate_clear_error(void) {
  aoti_plugins::delegate_error[0] = '\0';
}
