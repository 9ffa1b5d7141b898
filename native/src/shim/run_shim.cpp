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

Status refuse_handles(const char* names, std::initializer_list<AtenTensorHandle> handles) noexcept {
  for (const AtenTensorHandle handle : handles) {
    const size_t length = std::strcspn(names, ",");
    if (!are_tensors(handle)) {
      return fail("%.*s is %s", static_cast<int>(length), names,
                  handle == nullptr ? "null" : "an undefined tensor");
    }
    names += length + (names[length] != '\0' ? std::strlen(", ") : 0);
  }
  return Status::kFailed;
}

}  // namespace aoti_plugins

const char* aotip_shim_last_error() {
  return aoti_plugins::last_failure();
}
