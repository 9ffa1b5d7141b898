#include "slim/device.h"

#include <atomic>

#include "cpu/memory/cpu_device.h"

namespace aoti_plugins {
namespace {

constexpr int32_t kMaxDeviceTypes = 32;
std::atomic<DeviceInterface*> devices[kMaxDeviceTypes] = {};

}  // namespace

DeviceInterface* find_device(int32_t type) noexcept {
  if (type == kCpu) {
    return &cpu_device();
  }
  if (type < 0 || type >= kMaxDeviceTypes) {
    return nullptr;
  }
  return devices[type].load(std::memory_order_acquire);
}

Status register_device(int32_t type, DeviceInterface* device) noexcept {
  AOTIP_CHECK(device != nullptr, "register_device: device is null");
  AOTIP_CHECK(type > kCpu && type < kMaxDeviceTypes, "register_device: device type %d is not free",
              type);
  DeviceInterface* expected = nullptr;
  AOTIP_CHECK(devices[type].compare_exchange_strong(expected, device, std::memory_order_acq_rel),
              "register_device: device type %d (%s) is registered already", type,
              device_type_name(type));
  return Status::kOk;
}

const char* device_type_name(int32_t type) noexcept {
  switch (type) {
    case kCpu:
      return "cpu";
    case kCuda:
      return "cuda";
    case kXpu:
      return "xpu";
    case kMps:
      return "mps";
    case kMeta:
      return "meta";
    case kPrivateUse1:
      return "privateuseone";
    default:
      return "unknown device type";
  }
}

}  // namespace aoti_plugins
