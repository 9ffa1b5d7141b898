// AotiCudaBackend: registers the delegate with ExecuTorch, and CUDA with SlimTensor, when this
// library is loaded. Neither needs a driver; it is opened by the first program. CudaBackend,
// upstream's, is only offered.

#include <executorch/runtime/backend/interface.h>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/memory/planned_memory.h"
#include "cuda/session/options.h"
#include "cuda/session/session.h"
#include "cuda/session/target.h"
#include "cuda/upstream/upstream_backend.h"
#include "delegate/delegate_backend.h"
#include "delegate/stand_in.h"

namespace aoti_plugins::cuda {
namespace {

/// Must match AotiCudaBackend in aoti_plugins/cuda/backend.py.
constexpr char kBackendId[] = "AotiCudaBackend";

class CudaDelegateDevice final : public DelegateDevice {
 public:
  const char* name() const noexcept override { return "cuda"; }

  bool is_available() const noexcept override {
    if (open_driver() == nullptr) {
      return false;
    }
    if (gpus().empty()) {
      (void)fail("the NVIDIA driver shows no GPU (see CUDA_VISIBLE_DEVICES)");
      return false;
    }
    return true;
  }

  Status choose_target(const Payload& payload, int32_t device_index,
                       const TargetArtifact** ret) const noexcept override {
    const Gpu* gpu = find_gpu(device_index);
    if (gpu != nullptr && payload.targets.size() == 1 && payload.targets[0].plain_names) {
      *ret = &payload.targets[0];  // which GPUs it is for only its kernels say
      return Status::kOk;
    }
    return gpu != nullptr ? choose_gpu_target(payload, *gpu, gpus(), ret) : Status::kFailed;
  }

  int32_t index_for_rank(int32_t local_rank) const noexcept override {
    const auto count = static_cast<int32_t>(gpus().size());
    return count > 0 ? local_rank % count : 0;
  }

  const std::vector<DelegateOption>& options() const noexcept override { return cuda::options(); }

  std::unique_ptr<DeviceSession> open(const Payload& payload, int32_t device_index,
                                      LoadOptions specs) const noexcept override {
    bool graphs = false;
    if (wants_graphs(payload.flags, specs, &graphs) != Status::kOk) {
      return nullptr;
    }
    return CudaSession::create(device_index, payload.flags, graphs, payload.shares_buffers);
  }
};

CudaDelegateDevice device;
DelegateBackend backend(kBackendId, device);
UpstreamBackend upstream_backend(device);

[[maybe_unused]] const Status device_registered = register_device(kCuda, &cuda_device());
[[maybe_unused]] const bool memory_registered = (register_planned_memory(), true);
[[maybe_unused]] const ::executorch::runtime::Error backend_registered =
    ::executorch::runtime::register_backend({kBackendId, &backend});
[[maybe_unused]] const bool upstream_offered =
    offer_stand_in(UpstreamBackend::kId, &upstream_backend);

}  // namespace
}  // namespace aoti_plugins::cuda
