#include "runner/backends.h"

#include <aoti_plugins/delegate.h>
#include <executorch/runtime/backend/interface.h>

#include <cstring>

#include "runner/failure.h"

namespace aoti_plugins::runner {
namespace {

/// The delegate that takes and gives memory of GPUs.
constexpr const char* kCudaBackendId = "AotiCudaBackend";

int32_t check_upstream(int32_t provider, const char* method) {
  if (provider == AOTIP_STAND_IN_NONE) {
    return failed(Error::NotFound,
                  "method '%s' needs the backend %s, which nobody has registered: load "
                  "libexecutorch_backend_aoti_cuda.so, which stands in for it, or executorch's own",
                  method, kUpstreamCudaId);
  }
  if (provider == AOTIP_STAND_IN_OURS &&
      !::executorch::runtime::get_backend_class(kUpstreamCudaId)->is_available()) {
    return failed(Error::NotFound, "method '%s' cannot run here", method);
  }
  return 0;
}

}  // namespace

int32_t provide_backends(const ::executorch::runtime::MethodMeta& meta, const char* method,
                         bool* ret_takes_cuda) {
  *ret_takes_cuda = meta.uses_backend(kCudaBackendId);
  for (size_t i = 0; i < meta.num_backends(); ++i) {
    const auto id = meta.get_backend_name(i);
    if (!id.ok()) {
      continue;
    }
    const int32_t provider = aotip_delegate_stand_in(id.get());
    if (std::strcmp(id.get(), kUpstreamCudaId) != 0) {
      continue;
    }
    if (const int32_t code = check_upstream(provider, method)) {
      return code;
    }
    *ret_takes_cuda = *ret_takes_cuda || provider == AOTIP_STAND_IN_OURS;
  }
  return 0;
}

}  // namespace aoti_plugins::runner
