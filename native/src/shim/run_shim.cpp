#include "shim/run_shim.h"

#include <executorch/runtime/platform/log.h>

#include <cstring>

namespace aoti_plugins {

AOTITorchError report_failure(const char* shim) noexcept {
  const size_t length = std::strlen(shim);
  if (std::strncmp(last_failure(), shim, length) != 0) {
    (void)fail("%s: %s", shim, last_failure());
  }
  ET_LOG(Error, "%s", last_failure());
  return kShimFailure;
}

}  // namespace aoti_plugins

const char* aotip_shim_last_error() {
  return aoti_plugins::last_failure();
}
