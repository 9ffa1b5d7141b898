// randint.low_out: the CPU's numbers come in the order of the stream's other work.

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/stream.h"
#include "cuda/ops/operators.h"

namespace aoti_plugins::cuda {

Status Operators::begin_random() {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  AOTIP_CU(cuStreamIsCapturing, current_stream().handle, &status);
  AOTIP_CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE,
              "random numbers of a graph would be the same in every call");
  return Status::kOk;
}

/// A few numbers, the seeds of generated code, go with the calls that store them; for more of them
/// the host waits.
Status Operators::store_random(Tensor& out, const Tensor& host) {
  constexpr size_t kMostWords = 16;
  const size_t words = host.nbytes() / sizeof(uint32_t);
  if (words > kMostWords || words * sizeof(uint32_t) != host.nbytes()) {
    return cuda_device().copy(out, host);
  }
  const auto first = reinterpret_cast<CUdeviceptr>(out.data());
  for (size_t i = 0; i < words; ++i) {
    AOTIP_CU(cuMemsetD32Async, first + i * sizeof(uint32_t), host.data_as<uint32_t>()[i], 1,
             current_stream().handle);
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
