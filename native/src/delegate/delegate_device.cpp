#include "delegate/delegate_device.h"

namespace aoti_plugins {

DeviceSession::~DeviceSession() = default;
DelegateDevice::~DelegateDevice() = default;

const std::vector<DelegateOption>& DelegateDevice::options() const noexcept {
  static const auto* none = new std::vector<DelegateOption>();
  return *none;
}

bool ValueMemory::has_strides(const int64_t* other) const noexcept {
  for (int64_t d = 0; d < ndim; ++d) {
    if (strides[d] != other[d] && sizes[d] != 1) {
      return false;
    }
  }
  return true;
}

}  // namespace aoti_plugins
