// AotiMpsBackend: registers the delegate with ExecuTorch, and MPS with SlimTensor, when this
// library is loaded. Neither needs Metal; it is opened by the first program.

#include <executorch/runtime/backend/interface.h>

#include "delegate/delegate_backend.h"
#include "mps/driver/gpu.h"
#include "mps/session/mps_device.h"
#include "mps/session/options.h"
#include "mps/session/session.h"
#include "mps/session/target.h"

namespace aoti_plugins::mps {
namespace {

/// Must match AotiMpsBackend in aoti_plugins/mps/backend.py.
constexpr char kBackendId[] = "AotiMpsBackend";

class MpsDelegateDevice final : public DelegateDevice {
 public:
  const char* name() const noexcept override { return "mps"; }

  bool is_available() const noexcept override { return open_gpu() != nullptr; }

  Status choose_target(const Payload& payload, int32_t device_index,
                       const TargetArtifact** ret) const noexcept override {
    AOTIP_CHECK(device_index == 0, "there is no mps:%d, only mps:0", device_index);
    return choose_mps_target(payload, macos_version(), ret);
  }

  const std::vector<DelegateOption>& options() const noexcept override { return mps::options(); }

  std::unique_ptr<DeviceSession> open(const Payload&, int32_t,
                                      LoadOptions specs) const noexcept override {
    return check_load_options(specs) == Status::kOk ? MpsSession::create() : nullptr;
  }
};

MpsDelegateDevice device;
DelegateBackend backend(kBackendId, device);

[[maybe_unused]] const Status device_registered = register_device(kMps, &mps_device());
[[maybe_unused]] const ::executorch::runtime::Error backend_registered =
    ::executorch::runtime::register_backend({kBackendId, &backend});

}  // namespace
}  // namespace aoti_plugins::mps
