#include "delegate/plain_blob.h"

namespace aoti_plugins {

std::shared_ptr<SharedObject> load_plain_blob(const TargetArtifact& target, const DeviceSession&,
                                              const void*, size_t) {
  (void)fail("blob '%s' is one of ExecuTorch's own, which run on Linux only", target.key.c_str());
  return nullptr;
}

}  // namespace aoti_plugins
