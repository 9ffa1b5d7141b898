// AotiCpuBackend: registers the delegate with ExecuTorch when this library is loaded.

#include "delegate/delegate_backend.h"

namespace aoti_plugins {
namespace {

/// Must match AotiCpuBackend in aoti_plugins/cpu/backend.py.
constexpr char kBackendId[] = "AotiCpuBackend";

DelegateBackend backend(kBackendId, cpu_delegate_device());
[[maybe_unused]] const ::executorch::runtime::Error registered =
    ::executorch::runtime::register_backend({kBackendId, &backend});

}  // namespace
}  // namespace aoti_plugins
