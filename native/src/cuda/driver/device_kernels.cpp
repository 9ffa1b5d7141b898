#include "cuda/driver/device_kernels.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <string>

#include "cuda/driver/driver.h"
#include "cuda/driver/early_launch.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"

#ifdef AOTIP_DEVICE_KERNELS
// The image, by its path on the machine that builds us.
__asm__(
    ".section .rodata\n"
    ".balign 64\n"
    "aotip_device_kernels_image:\n"
    ".incbin \"" AOTIP_DEVICE_KERNELS
    "\"\n"
    ".byte 0\n"
    ".previous\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char aotip_device_kernels_image[];
#endif

namespace aoti_plugins::cuda {
namespace {

/// Compute capabilities of the image's PTX and cubins.
constexpr uint32_t kPtx = 80;
constexpr uint32_t kArchs[] = {kPtx, AOTIP_CUBINS};

constexpr unsigned int kBlock = 256;

/// Shared memory of a block that needs no asking.
constexpr unsigned int kFreeSharedNbytes = 48 << 10;

struct LoadedKernel {
  CUfunction function = nullptr;
  unsigned int shared_nbytes = kFreeSharedNbytes;  ///< what its launches may ask for
};

/// What is loaded on one GPU.
struct Loaded {
  CUmodule module = nullptr;
  std::map<std::string, LoadedKernel, std::less<>> kernels;
};

struct Cache {
  std::mutex mutex;
  std::map<int32_t, Loaded> gpus;
};

Cache& cache() {
  static Cache* instance = new Cache();
  return *instance;
}

Status load_module(CUmodule* ret) {
#ifdef AOTIP_DEVICE_KERNELS
  AOTIP_CU(cuModuleLoadData, ret, aotip_device_kernels_image);
  return Status::kOk;
#else
  (void)ret;
  return fail(
      "this build of aoti_plugins has no device kernels: nvcc was not there when it was built");
#endif
}

Status load_kernel(int32_t gpu, const char* name, Loaded& loaded, LoadedKernel* ret) {
  AOTIP_RETURN_IF_FAILED(use_gpu(gpu));
  if (loaded.module == nullptr) {
    AOTIP_RETURN_IF_FAILED(load_module(&loaded.module));
  }
  AOTIP_CU(cuModuleGetFunction, &ret->function, loaded.module, name);
  return Status::kOk;
}

/// A kernel whose launches may ask for so many bytes.
Status find_kernel(int32_t gpu, const char* name, unsigned int shared_nbytes, CUfunction* ret) {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  Loaded& loaded = cache().gpus[gpu];
  auto known = loaded.kernels.find(std::string_view(name));
  if (known == loaded.kernels.end()) {
    LoadedKernel kernel;
    AOTIP_RETURN_IF_FAILED(load_kernel(gpu, name, loaded, &kernel));
    known = loaded.kernels.emplace(name, kernel).first;
  }
  LoadedKernel& kernel = known->second;
  if (shared_nbytes > kernel.shared_nbytes) {
    AOTIP_CU(cuFuncSetAttribute, kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
             static_cast<int>(shared_nbytes));
    kernel.shared_nbytes = shared_nbytes;
  }
  *ret = kernel.function;
  return Status::kOk;
}

Status launch(CUfunction function, unsigned int blocks, unsigned int threads, void** arguments) {
  AOTIP_CU(cuLaunchKernel, function, blocks, 1, 1, threads, 1, 1, 0, current_stream().handle,
           arguments, nullptr);
  return Status::kOk;
}

CUfunction kernel_with(int32_t gpu, const char* name, unsigned int shared_nbytes) noexcept {
  CUfunction function = nullptr;
  try {
    if (find_kernel(gpu, name, shared_nbytes, &function) != Status::kOk) {
      (void)fail("kernel %s: %s", name, last_failure());
      return nullptr;
    }
  } catch (const std::exception& error) {
    (void)fail("kernel %s: %s", name, error.what());
    return nullptr;
  }
  return function;
}

}  // namespace

uint32_t arch_of_kernels(uint32_t arch) noexcept {
  uint32_t found = kPtx;
  for (const uint32_t compiled : kArchs) {
    if (compiled / 10 == arch / 10 && compiled <= arch) {
      found = std::max(found, compiled);
    }
  }
  return found;
}

CUfunction device_kernel(int32_t gpu, const char* name) noexcept {
  return kernel_with(gpu, name, 0);
}

Status launch_blocks(int32_t gpu, const char* name, int64_t blocks, unsigned int threads,
                     void** arguments) noexcept {
  CUfunction function = device_kernel(gpu, name);
  const Gpu* where = find_gpu(gpu);
  if (function == nullptr || where == nullptr) {
    return Status::kFailed;
  }
  const int64_t most = int64_t{where->multiprocessors} * 32;
  const unsigned int grid = static_cast<unsigned int>(std::clamp<int64_t>(blocks, 1, most));
  return launch(function, grid, threads, arguments);
}

Status launch_exactly(int32_t gpu, const char* name, unsigned int blocks, unsigned int threads,
                      void** arguments) noexcept {
  CUfunction function = device_kernel(gpu, name);
  return function != nullptr ? launch(function, blocks, threads, arguments) : Status::kFailed;
}

bool has_clusters(int32_t gpu) noexcept {
  const Gpu* where = find_gpu(gpu);
  return where != nullptr && where->kernels_arch >= 90 && driver_launches_early();
}

Status launch_early(int32_t gpu, const char* name, const Width& width, void** arguments) noexcept {
  return launch_wide(gpu, name, width, true, arguments);
}

Status launch_wide(int32_t gpu, const char* name, const Width& width, bool may_begin_early,
                   void** arguments) noexcept {
  CUfunction function = kernel_with(gpu, name, width.shared_nbytes);
  const Gpu* where = find_gpu(gpu);
  if (function == nullptr || where == nullptr) {
    return Status::kFailed;
  }
  const Launch config{function,
                      {width.blocks, 1, 1},
                      {width.threads, 1, 1},
                      width.shared_nbytes,
                      current_stream().handle,
                      width.cluster};
  const CUresult code = where->kernels_arch < 90 || !may_begin_early
                            ? launch_in_order(config, arguments)
                            : launch_early(config, arguments);
  return code == CUDA_SUCCESS ? Status::kOk : fail_driver("launching a kernel", code);
}

Status launch_elements(int32_t gpu, const char* name, int64_t numel, void** arguments) noexcept {
  return launch_blocks(gpu, name, (numel + kBlock - 1) / kBlock, kBlock, arguments);
}

}  // namespace aoti_plugins::cuda
