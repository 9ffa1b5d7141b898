#include "cuda/memory/memory_pool.h"

#include <map>
#include <memory>

#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/shortage.h"

namespace aoti_plugins::cuda {
namespace {

std::atomic<size_t> most{SIZE_MAX};

}  // namespace

void MemoryPool::set_limit(size_t nbytes) noexcept {
  most.store(nbytes, std::memory_order_relaxed);
}

size_t MemoryPool::limit() noexcept {
  return most.load(std::memory_order_relaxed);
}

Status MemoryPool::create(int32_t index) noexcept {
  const Gpu* gpu = find_gpu(index);
  AOTIP_RETURN_IF_NULL(gpu);
  if (!gpu->has_pools) {
    return Status::kOk;
  }
  AOTIP_RETURN_IF_FAILED(use_gpu(index));
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = index;
  AOTIP_CU(cuMemPoolCreate, &pool_, &props);
  // Without a threshold, each synchronization would return everything to the system.
  cuuint64_t threshold = UINT64_MAX;
  AOTIP_CU(cuMemPoolSetAttribute, pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  return Status::kOk;
}

MemoryPool* MemoryPool::of(int32_t gpu) noexcept {
  static std::mutex* mutex = new std::mutex();
  static auto* pools = new std::map<int32_t, MemoryPool*>();
  const std::lock_guard<std::mutex> lock(*mutex);
  const auto found = pools->find(gpu);
  if (found != pools->end()) {
    return found->second;
  }
  std::unique_ptr<MemoryPool> pool(new (std::nothrow) MemoryPool());
  if (pool == nullptr || pool->create(gpu) != Status::kOk) {
    return nullptr;
  }
  return (*pools)[gpu] = pool.release();
}

/// Counts memory as used if the limit allows it. What is refused is never counted, so that it takes
/// nothing from other threads.
bool MemoryPool::reserve(size_t nbytes) noexcept {
  const size_t allowed = limit();
  size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (nbytes > allowed || used > allowed - nbytes) {
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + nbytes, std::memory_order_relaxed));
  return true;
}

void* MemoryPool::allocate(size_t nbytes, CUstream stream) noexcept {
  if (!reserve(nbytes)) {
    ++shortages();
    (void)fail("%zu bytes more than the %zu that are used exceed the limit of %zu bytes", nbytes,
               used(), limit());
    return nullptr;
  }
  CUdeviceptr ptr = 0;
  const CUresult code = pool_ != nullptr
                            ? driver().cuMemAllocFromPoolAsync(&ptr, nbytes, pool_, stream)
                            : driver().cuMemAlloc(&ptr, nbytes);
  if (code != CUDA_SUCCESS) {
    used_.fetch_sub(nbytes, std::memory_order_relaxed);
    (void)fail_driver("allocating device memory", code);
    return nullptr;
  }
  return reinterpret_cast<void*>(ptr);
}

void MemoryPool::deallocate(void* ptr, size_t nbytes, CUstream stream) noexcept {
  if (ptr == nullptr) {
    return;
  }
  if (pool_ != nullptr) {
    AOTIP_CU_LOG(cuMemFreeAsync, device_address(ptr), stream);
  } else {
    AOTIP_CU_LOG(cuMemFree, device_address(ptr));
  }
  used_.fetch_sub(nbytes, std::memory_order_relaxed);
}

void MemoryPool::trim(size_t keep_nbytes) noexcept {
  if (pool_ != nullptr) {
    AOTIP_CU_LOG(cuMemPoolTrimTo, pool_, keep_nbytes);
  }
}

}  // namespace aoti_plugins::cuda
