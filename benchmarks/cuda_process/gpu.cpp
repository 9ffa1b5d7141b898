#include "gpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "process.h"

void check(CUresult code, const char* call) {
  if (code != CUDA_SUCCESS) {
    const char* name = nullptr;
    (void)cuGetErrorName(code, &name);
    std::fprintf(stderr, "%s failed: %s\n", call, name != nullptr ? name : "?");
    std::exit(1);
  }
}

void use_gpu() {
  CHECK_CU(cuInit(0));
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK_CU(cuDeviceGet(&device, 0));
  CHECK_CU(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_CU(cuCtxSetCurrent(context));
}

size_t free_nbytes() {
  size_t available = 0;
  size_t total = 0;
  CHECK_CU(cuMemGetInfo(&available, &total));
  return available;
}

DeviceMemory::DeviceMemory(size_t nbytes) {
  CHECK_CU(cuMemAlloc(&ptr_, std::max<size_t>(nbytes, 1)));
}

DeviceMemory::~DeviceMemory() {
  if (ptr_ != 0) {
    (void)cuMemFree(ptr_);
  }
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept : ptr_(std::exchange(other.ptr_, 0)) {}

void DeviceMemory::write(const void* data, size_t nbytes) {
  CHECK_CU(cuMemcpyHtoD(ptr_, data, nbytes));
}

std::vector<DeviceMemory> fill_device(size_t spare) {
  std::vector<DeviceMemory> blocks;
  for (size_t left = free_nbytes(); left > spare + (size_t{4} << 20); left = free_nbytes()) {
    // Not all at once: the driver needs some room for each block.
    blocks.emplace_back(std::max<size_t>((left - spare) / 2, size_t{2} << 20));
  }
  return blocks;
}

double pinned_copy_ms(size_t nbytes) {
  void* host = nullptr;
  CHECK_CU(cuMemHostAlloc(&host, nbytes, 0));
  std::memset(host, 7, nbytes);
  DeviceMemory device(nbytes);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const Clock clock;
    device.write(host, nbytes);
    times.push_back(clock.microseconds() / 1000);
  }
  CHECK_CU(cuMemFreeHost(host));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}
