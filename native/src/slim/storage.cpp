#include "slim/storage.h"

#include <cstdlib>
#include <new>

#include "cpu/memory/kept_blocks.h"

namespace aoti_plugins {
namespace {

// Room for the counter in front of the bytes.
constexpr size_t kOverhead =
    (sizeof(Storage) + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
static_assert(cpu::kBlockAlignment % kStorageAlignment == 0);

}  // namespace

Storage* Storage::allocate(size_t nbytes, Device device) noexcept {
  if (device.type == kCpu) {
    void* block = nbytes <= SIZE_MAX - kOverhead ? cpu::take_block(kOverhead + nbytes) : nullptr;
    if (block == nullptr) {
      (void)fail("out of memory: %zu bytes on the cpu", nbytes);
      return nullptr;
    }
    return new (block) Storage(static_cast<char*>(block) + kOverhead, nbytes, device);
  }
  DeviceInterface* interface = find_device(device.type);
  if (interface == nullptr || !interface->has_index(device.index)) {
    (void)fail("no device %s:%d in this process", device_type_name(device.type), device.index);
    return nullptr;
  }
  void* block = std::malloc(sizeof(Storage));
  void* owner = nullptr;
  clear_failure();
  void* data =
      block != nullptr && nbytes > 0 ? interface->allocate(nbytes, device.index, &owner) : nullptr;
  if (block == nullptr || (data == nullptr && nbytes > 0)) {
    std::free(block);
    (void)fail("out of memory: %zu bytes on %s:%d%s%s", nbytes, device_type_name(device.type),
               device.index, last_failure()[0] != '\0' ? ": " : "", last_failure());
    return nullptr;
  }
  Storage* storage = new (block) Storage(data, nbytes, device);
  storage->owner_ = owner;
  return storage;
}

void Storage::free() noexcept {
  if (device_.type == kCpu) {
    const size_t nbytes = kOverhead + nbytes_;
    this->~Storage();
    cpu::give_block(this, nbytes);
    return;
  }
  if (DeviceInterface* interface = find_device(device_.type)) {
    interface->deallocate(data_, nbytes_, device_.index, owner_);
  }
  this->~Storage();
  std::free(static_cast<void*>(this));
}

}  // namespace aoti_plugins
