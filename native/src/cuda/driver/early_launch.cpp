#include "cuda/driver/early_launch.h"

#include <atomic>
#include <cstddef>
#include <functional>

#include "cuda/driver/driver.h"

namespace aoti_plugins::cuda {
namespace {

// The first driver whose graphs keep such launches (CUDA 12.3).
constexpr int kFirstDriver = 12030;

/// Gives a kernel's multiprocessors as much shared memory as they can have. Blocks of two kernels
/// are on a multiprocessor together only if both have it divided in the same way. Launches ask each
/// time: what is remembered is a hint, too, and two kernels of one place only forget each other.
void prefer_shared_memory(CUfunction function) noexcept {
  constexpr size_t kPlaces = 1024;
  static std::atomic<CUfunction> known[kPlaces];
  std::atomic<CUfunction>& place = known[std::hash<CUfunction>()(function) / 16 % kPlaces];
  if (place.load(std::memory_order_relaxed) == function) {
    return;
  }
  place.store(function, std::memory_order_relaxed);
  (void)driver().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                    CU_SHAREDMEM_CARVEOUT_MAX_SHARED);
}

/// With what `cuLaunchKernel` has no argument for.
CUresult launch_with(const Launch& launch, bool is_early, void** arguments) noexcept {
  CUlaunchAttribute attributes[2] = {};
  unsigned int count = 0;
  if (is_early) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (launch.cluster > 1) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count++].value.clusterDim = {launch.cluster, 1, 1};
  }
  CUlaunchConfig config{};
  config.gridDimX = launch.grid[0];
  config.gridDimY = launch.grid[1];
  config.gridDimZ = launch.grid[2];
  config.blockDimX = launch.block[0];
  config.blockDimY = launch.block[1];
  config.blockDimZ = launch.block[2];
  config.sharedMemBytes = launch.shared_nbytes;
  config.hStream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return driver().cuLaunchKernelEx(&config, launch.function, arguments, nullptr);
}

}  // namespace

bool driver_launches_early() noexcept {
  static const bool found = [] {
    int version = 0;
    return driver().cuLaunchKernelEx != nullptr &&
           driver().cuDriverGetVersion(&version) == CUDA_SUCCESS && version >= kFirstDriver;
  }();
  return found;
}

CUresult launch_in_order(const Launch& launch, void** arguments) noexcept {
  if (launch.cluster > 1) {
    return launch_with(launch, false, arguments);
  }
  const unsigned int* grid = launch.grid;
  const unsigned int* block = launch.block;
  return driver().cuLaunchKernel(launch.function, grid[0], grid[1], grid[2], block[0], block[1],
                                 block[2], launch.shared_nbytes, launch.stream, arguments, nullptr);
}

CUresult launch_early(const Launch& launch, void** arguments) noexcept {
  if (!driver_launches_early()) {
    return launch_in_order(launch, arguments);
  }
  prefer_shared_memory(launch.function);
  return launch_with(launch, true, arguments);
}

}  // namespace aoti_plugins::cuda
