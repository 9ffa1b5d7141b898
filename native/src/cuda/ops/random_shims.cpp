// randint.low_out: the numbers are made by the CPU and come in the order of the stream's other
// work. A graph would repeat those that it was captured with.

#include <aoti_plugins/cuda_shim.h>

#include "cpu/ops/random.h"
#include "cuda/driver/cuda_device.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "shim/randint.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

Status refuse_capture() {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  AOTIP_CU(cuStreamIsCapturing, cuda::current_stream().handle, &status);
  AOTIP_CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE,
              "random numbers of a graph would be the same in every call");
  return Status::kOk;
}

/// A few numbers, the seeds of generated code, go with the calls that store them; for more of them
/// the host waits.
Status store(Tensor& tensor, const Tensor& host) {
  constexpr size_t kMostWords = 16;
  const size_t words = host.nbytes() / sizeof(uint32_t);
  if (words > kMostWords || words * sizeof(uint32_t) != host.nbytes()) {
    return cuda::cuda_device().copy(tensor, host);
  }
  const auto first = reinterpret_cast<CUdeviceptr>(tensor.data());
  for (size_t i = 0; i < words; ++i) {
    AOTIP_CU(cuMemsetD32Async, first + i * sizeof(uint32_t), host.data_as<uint32_t>()[i], 1,
             cuda::current_stream().handle);
  }
  return Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_cuda_randint_low_out(AtenTensorHandle out, int64_t low, int64_t high,
                                               const int64_t* size, int64_t size_len_) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(out);
    Tensor& tensor = *unwrap(out);
    AOTIP_RETURN_IF_FAILED(check_randint(tensor, kCuda, low, high, size, size_len_));
    const cuda::ContextGuard guard;
    AOTIP_RETURN_IF_FAILED(cuda::use_gpu(tensor.device().index));
    AOTIP_RETURN_IF_FAILED(refuse_capture());
    const OwnedTensor host(Tensor::empty(tensor.ndim(), tensor.sizes(), tensor.dtype(), Device{}));
    if (host == nullptr) {
      return Status::kFailed;
    }
    char* at = static_cast<char*>(host->data());
    Element element;
    for (int64_t i = 0; i < tensor.numel(); ++i, at += tensor.itemsize()) {
      element.integer = cpu::random_between(low, high);
      store_element(at, tensor.dtype(), element);
    }
    return store(tensor, *host);
  });
}
