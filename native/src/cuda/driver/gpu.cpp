#include "cuda/driver/gpu.h"

#include <array>
#include <atomic>
#include <exception>
#include <mutex>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/driver.h"
#include "delegate/fork_gate.h"

namespace aoti_plugins::cuda {
namespace {

constexpr size_t kMaxGpus = 64;

struct Contexts {
  std::mutex mutex;
  std::array<std::atomic<CUcontext>, kMaxGpus> primary = {};
  std::atomic<bool> any{false};
  std::atomic<uint32_t> generation{0};  ///< `fork_generation()` when there was none yet
};

Contexts& contexts() {
  static Contexts* instance = new Contexts();  // programs may be unloaded at exit
  return *instance;
}

Status attribute(CUdevice device, CUdevice_attribute which, int32_t* ret) {
  int value = 0;
  AOTIP_CU(cuDeviceGetAttribute, &value, which, device);
  *ret = value;
  return Status::kOk;
}

Status describe(int32_t index, Gpu* gpu) {
  gpu->index = index;
  AOTIP_CU(cuDeviceGet, &gpu->handle, index);
  char name[256] = {};
  AOTIP_CU(cuDeviceGetName, name, sizeof(name) - 1, gpu->handle);
  gpu->name = name;
  int32_t shared = 0;
  int32_t pools = 0;
  AOTIP_RETURN_IF_FAILED(
      attribute(gpu->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &gpu->major));
  AOTIP_RETURN_IF_FAILED(
      attribute(gpu->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &gpu->minor));
  AOTIP_RETURN_IF_FAILED(
      attribute(gpu->handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &gpu->multiprocessors));
  AOTIP_RETURN_IF_FAILED(
      attribute(gpu->handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared));
  AOTIP_RETURN_IF_FAILED(
      attribute(gpu->handle, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &pools));
  gpu->kernels_arch = arch_of_kernels(gpu->arch());
  gpu->shared_memory_nbytes = static_cast<size_t>(shared);
  gpu->has_pools = pools != 0;
  return Status::kOk;
}

std::vector<Gpu> list_gpus() {
  std::vector<Gpu> found;
  int count = 0;
  if (driver().cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    return found;
  }
  for (int32_t i = 0; i < count && found.size() < kMaxGpus; ++i) {
    Gpu gpu;
    if (describe(i, &gpu) == Status::kOk) {
      found.push_back(gpu);
    }
  }
  return found;
}

}  // namespace

const std::vector<Gpu>& gpus() noexcept {
  static const std::vector<Gpu>* none = new std::vector<Gpu>();
  if (find_driver() == nullptr) {
    return *none;
  }
  static const std::vector<Gpu>* found = new std::vector<Gpu>(list_gpus());
  return *found;
}

const Gpu* find_gpu(int32_t index) noexcept {
  if (open_driver() == nullptr) {
    return nullptr;
  }
  const std::vector<Gpu>& all = gpus();
  if (index < 0 || static_cast<size_t>(index) >= all.size()) {
    (void)fail("there is no GPU cuda:%d, this machine has %zu", index, all.size());
    return nullptr;
  }
  return &all[static_cast<size_t>(index)];
}

namespace {

/// The driver cannot be used in the child of a process that has used it; some calls never return.
Status check_not_forked() noexcept {
  AOTIP_CHECK(!contexts().any.load(std::memory_order_acquire) ||
                  contexts().generation.load(std::memory_order_relaxed) == fork_generation(),
              "this process was forked from one that had used CUDA, so it cannot use CUDA itself. "
              "Start processes with 'spawn' or 'forkserver', or fork before the first program is "
              "loaded.");
  return Status::kOk;
}

}  // namespace

Status use_gpu(int32_t index) noexcept {
  const Gpu* gpu = find_gpu(index);
  AOTIP_RETURN_IF_NULL(gpu);
  AOTIP_RETURN_IF_FAILED(check_not_forked());
  std::atomic<CUcontext>& primary = contexts().primary[static_cast<size_t>(index)];
  CUcontext context = primary.load(std::memory_order_acquire);
  if (context == nullptr) {
    const std::lock_guard<std::mutex> lock(contexts().mutex);
    context = primary.load(std::memory_order_acquire);
    if (context == nullptr) {
      AOTIP_CU(cuDevicePrimaryCtxRetain, &context, gpu->handle);
      contexts().generation.store(fork_generation(), std::memory_order_relaxed);
      contexts().any.store(true, std::memory_order_release);
      primary.store(context, std::memory_order_release);
    }
  }
  CUcontext current = nullptr;
  AOTIP_CU(cuCtxGetCurrent, &current);
  if (current != context) {
    AOTIP_CU(cuCtxSetCurrent, context);
  }
  return Status::kOk;
}

int32_t current_gpu() noexcept {
  CUcontext current = nullptr;
  CUdevice device = 0;
  if (find_driver() == nullptr || driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS ||
      current == nullptr || driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) {
    return -1;
  }
  for (const Gpu& gpu : gpus()) {
    if (gpu.handle == device) {
      return gpu.index;
    }
  }
  return -1;
}

ContextGuard::ContextGuard() noexcept {
  if (find_driver() != nullptr) {
    (void)driver().cuCtxGetCurrent(&previous_);
  }
}

ContextGuard::~ContextGuard() {
  CUcontext current = nullptr;
  if (find_driver() != nullptr && driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
      current != previous_) {
    AOTIP_CU_LOG(cuCtxSetCurrent, previous_);
  }
}

}  // namespace aoti_plugins::cuda
