#include "cuda/memory/device_memory.h"

#include "cuda/driver/driver.h"
#include "cuda/driver/stream.h"

namespace aoti_plugins::cuda {

CUresult allocate_device_memory(int32_t gpu, size_t nbytes, CUdeviceptr* ret) noexcept {
  const CUresult code = driver().cuMemAlloc(ret, nbytes);
  if (code != CUDA_ERROR_OUT_OF_MEMORY) {
    return code;
  }
  Stream::release_all_kept(gpu);
  return driver().cuMemAlloc(ret, nbytes);
}

}  // namespace aoti_plugins::cuda
