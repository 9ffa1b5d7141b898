#include "cuda/memory/pinned.h"

#include "cuda/driver/driver.h"

namespace aoti_plugins::cuda {

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) {
    AOTIP_CU_LOG(cuMemFreeHost, data_);
  }
}

Status PinnedMemory::allocate(size_t nbytes) noexcept {
  if (data_ != nullptr) {
    AOTIP_CU_LOG(cuMemFreeHost, data_);
    data_ = nullptr;
    nbytes_ = 0;
  }
  void* data = nullptr;
  AOTIP_CU(cuMemHostAlloc, &data, nbytes, CU_MEMHOSTALLOC_PORTABLE);
  data_ = static_cast<char*>(data);
  nbytes_ = nbytes;
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
