#include "delegate/delegate_device.h"

#include "shim/run_shim.h"

namespace aoti_plugins {

ModelCall::~ModelCall() = default;

Status ModelCall::give_results() noexcept {
  for (size_t i = 0; i < results().size(); ++i) {
    AOTIP_RETURN_IF_FAILED(give(i, *unwrap(results()[i])));
  }
  return Status::kOk;
}

DeviceSession::~DeviceSession() = default;

void* DeviceSession::plain_function(const char*) const noexcept {
  return nullptr;
}

Status DeviceSession::outputs_later() noexcept {
  return fail("calls cannot be begun and finished apart on this device");
}

Status DeviceSession::finish_call() noexcept {
  return outputs_later();
}

Status DeviceSession::perform(ModelCall& call) noexcept {
  AOTIP_RETURN_IF_FAILED(call.run_model());
  return call.give_results();
}

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
