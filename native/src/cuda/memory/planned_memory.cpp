#include "cuda/memory/planned_memory.h"

#include <executorch/runtime/core/device_allocator.h>
#include <executorch/runtime/platform/log.h>

#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/memory/device_memory.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {
namespace {

using ::executorch::runtime::DeviceAllocator;
using ::executorch::runtime::Error;
using ::executorch::runtime::Result;
using ::executorch::runtime::etensor::DeviceIndex;
using ::executorch::runtime::etensor::DeviceType;

// What the driver gives is aligned to this at least.
constexpr size_t kAlignment = 256;

/// Copies are made on the legacy default stream, which waits for the delegates' streams.
class CudaPlannedMemory final : public DeviceAllocator {
 public:
  Result<void*> allocate(size_t nbytes, DeviceIndex index, size_t alignment) override {
    const ContextGuard guard;
    CUdeviceptr ptr = 0;
    if (alignment > kAlignment) {
      (void)fail("an alignment of %zu bytes, at most %zu are possible", alignment, kAlignment);
      return report(Error::InvalidArgument);
    }
    if (allocate_on(index, nbytes, &ptr) != Status::kOk) {
      return report(Error::MemoryAllocationFailed);
    }
    return reinterpret_cast<void*>(ptr);
  }

  void deallocate(void* ptr, DeviceIndex index) override {
    const ContextGuard guard;
    if (ptr != nullptr && use_gpu(index) == Status::kOk) {
      AOTIP_CU_LOG(cuMemFree, device_address(ptr));
    }
  }

  Error copy_host_to_device(void* dst, const void* src, size_t nbytes, DeviceIndex index) override {
    return copy(dst, src, nbytes, index);
  }

  Error copy_device_to_host(void* dst, const void* src, size_t nbytes, DeviceIndex index) override {
    return copy(dst, src, nbytes, index);
  }

  DeviceType device_type() const override { return DeviceType::CUDA; }

 private:
  static Status allocate_on(int32_t gpu, size_t nbytes, CUdeviceptr* ret) {
    AOTIP_RETURN_IF_FAILED(use_gpu(gpu));
    const CUresult code = allocate_device_memory(gpu, nbytes, ret);
    return code == CUDA_SUCCESS ? Status::kOk : fail_driver("cuMemAlloc", code);
  }

  static Status copy_on(int32_t gpu, void* dst, const void* src, size_t nbytes) {
    AOTIP_RETURN_IF_FAILED(use_gpu(gpu));
    AOTIP_CU(cuMemcpy, device_address(dst), device_address(src), nbytes);
    AOTIP_CU(cuStreamSynchronize, nullptr);
    return Status::kOk;
  }

  static Error copy(void* dst, const void* src, size_t nbytes, DeviceIndex index) {
    const ContextGuard guard;
    return nbytes == 0 || copy_on(index, dst, src, nbytes) == Status::kOk ? Error::Ok
                                                                          : report(Error::Internal);
  }

  static Error report(Error error) {
    ET_LOG(Error, "planned CUDA memory: %s", last_failure());
    return error;
  }
};

}  // namespace

void register_planned_memory() noexcept {
  if (::executorch::runtime::get_device_allocator(DeviceType::CUDA) == nullptr) {
    // Programs may outlive this library's static objects.
    ::executorch::runtime::register_device_allocator(new CudaPlannedMemory());
  }
}

}  // namespace aoti_plugins::cuda
