#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// One GPU of this machine, by the driver's index.
struct Gpu {
  int32_t index = 0;
  CUdevice handle = 0;
  std::string name;
  int32_t major = 0;  ///< compute capability
  int32_t minor = 0;
  uint32_t kernels_arch = 0;  ///< `arch_of_kernels` of it
  int32_t multiprocessors = 0;
  size_t shared_memory_nbytes = 0;  ///< most that a block can opt in to
  bool has_pools = false;           ///< stream-ordered memory pools

  uint32_t arch() const { return static_cast<uint32_t>(10 * major + minor); }
};

/// The GPUs that the driver shows; empty without a driver. Asked for once.
const std::vector<Gpu>& gpus() noexcept;

/// The GPU with an index; null, with a reason, when there is none.
const Gpu* find_gpu(int32_t index) noexcept;

/// Makes a GPU's primary context current on this thread. The context is retained by the first call
/// and stays for the life of the process, as cudart's does.
Status use_gpu(int32_t index) noexcept;

/// Index of this thread's current GPU; -1 when no context is current.
int32_t current_gpu() noexcept;

/// Puts back, at its end, the context that was current on this thread at its start.
class ContextGuard {
 public:
  ContextGuard() noexcept;
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  CUcontext previous_ = nullptr;
};

}  // namespace aoti_plugins::cuda
