#include "cuda/memory/kernel_copy.h"

#include "cuda/driver/device_kernels.h"
#include "cuda/kernels/strided.h"

namespace aoti_plugins::cuda {

Status copy_by_kernel(int32_t gpu, void* to, const void* from, size_t nbytes,
                      bool* ret_done) noexcept {
  const uintptr_t bits =
      reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | nbytes;
  const bool in_words = bits % sizeof(uint64_t) == 0;
  const char* const name = in_words ? "aotip_copy_8" : "aotip_copy_1";
  *ret_done = nbytes <= kKernelCopyNbytes && device_kernel(gpu, name) != nullptr;
  if (!*ret_done) {
    return Status::kOk;
  }
  StridedLoops loops{};
  loops.numel = static_cast<int64_t>(in_words ? nbytes / sizeof(uint64_t) : nbytes);
  loops.ndim = 1;
  loops.sizes[0] = loops.numel;
  loops.dst[0] = 1;
  loops.src[0] = 1;
  void* arguments[] = {&to, &from, &loops};
  return launch_elements(gpu, name, loops.numel, arguments);
}

}  // namespace aoti_plugins::cuda
