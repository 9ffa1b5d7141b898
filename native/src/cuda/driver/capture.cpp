#include "cuda/driver/capture.h"

#include "cuda/driver/driver.h"
#include "cuda/driver/shortage.h"
#include "cuda/driver/stream.h"

namespace aoti_plugins::cuda {

Status is_captured(bool* ret) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  AOTIP_CU(cuStreamIsCapturing, current_stream().handle, &status);
  *ret = status != CU_STREAM_CAPTURE_STATUS_NONE;
  return Status::kOk;
}

Status refuse_in_capture(const char* what) noexcept {
  bool captured = false;
  AOTIP_RETURN_IF_FAILED(is_captured(&captured));
  if (captured) {
    ++shortages();
    return fail("%s cannot be made while a graph is captured", what);
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
