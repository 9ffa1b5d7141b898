#include "cuda/driver/event.h"

#include "cuda/driver/driver.h"

namespace aoti_plugins::cuda {

Status Event::create(bool timed) noexcept {
  AOTIP_CU(cuEventCreate, &handle_, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  return Status::kOk;
}

void Event::reset() noexcept {
  if (handle_ != nullptr) {
    AOTIP_CU_LOG(cuEventDestroy, handle_);
    handle_ = nullptr;
  }
}

}  // namespace aoti_plugins::cuda
