#include "mps/driver/gpu.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace aoti_plugins::mps {
namespace {

std::atomic<const Gpu*> opened{nullptr};

std::mutex& mutex() {
  static std::mutex* instance = new std::mutex();
  return *instance;
}

/// Both references, device and queue, are kept for good.
const Gpu* make_gpu() {
  const AutoreleasePool pool;
  Owned device(objc().create_device());
  if (!device) {
    (void)fail("this machine has no GPU that Metal can use");
    return nullptr;
  }
  Owned queue(send<Id>(device.get(), selectors().newCommandQueue));
  if (!queue) {
    (void)fail("the GPU gives no command queue");
    return nullptr;
  }
  const char* name =
      send<const char*>(send<Id>(device.get(), selectors().name), selectors().UTF8String);
  auto gpu = std::make_unique<Gpu>();
  gpu->name = name != nullptr ? name : "unknown GPU";
  gpu->max_buffer_nbytes = send<unsigned long>(device.get(), selectors().maxBufferLength);
  gpu->device = device.leave();
  gpu->queue = queue.leave();
  return gpu.release();
}

}  // namespace

const Gpu* open_gpu() noexcept {
  if (const Gpu* known = opened.load(std::memory_order_acquire)) {
    return known;
  }
  if (open_objc() == nullptr) {
    return nullptr;
  }
  try {
    const std::lock_guard<std::mutex> lock(mutex());
    if (opened.load(std::memory_order_relaxed) == nullptr) {
      opened.store(make_gpu(), std::memory_order_release);
    }
    return opened.load(std::memory_order_relaxed);
  } catch (const std::exception& error) {
    (void)fail("opening the GPU: %s", error.what());
    return nullptr;
  }
}

const Gpu& gpu() noexcept {
  return *opened.load(std::memory_order_acquire);
}

int macos_version() noexcept {
#ifdef __APPLE__
  char text[32] = {};
  size_t nbytes = sizeof(text) - 1;
  int major = 0;
  int minor = 0;
  if (sysctlbyname("kern.osproductversion", text, &nbytes, nullptr, 0) != 0 ||
      std::sscanf(text, "%d.%d", &major, &minor) < 1) {
    return 0;
  }
  return 100 * major + minor;
#else
  return 0;
#endif
}

}  // namespace aoti_plugins::mps
