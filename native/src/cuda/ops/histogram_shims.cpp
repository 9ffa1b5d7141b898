// histc with given bounds.

#include <aoti_plugins/cuda_shim.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/histogram.h"
#include "ops/operand.h"

using namespace aoti_plugins;

namespace {

Status check(const Tensor& self, int64_t bins, double low, double high) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(self, "self", kCuda));
  AOTIP_CHECK(is_real(self.dtype()), "no histogram of %s", dtype_name(self.dtype()));
  AOTIP_CHECK(bins >= 1 && bins <= cuda::kHistogramBins, "%lld bins, expected 1 to %d",
              static_cast<long long>(bins), cuda::kHistogramBins);
  AOTIP_CHECK(std::isfinite(low) && std::isfinite(high) && low < high,
              "the bounds are %g and %g, expected finite ones in this order", low, high);
  AOTIP_CHECK(self.numel() <= int64_t{UINT32_MAX}, "%lld elements, at most %u can be counted",
              static_cast<long long>(self.numel()), UINT32_MAX);
  return Status::kOk;
}

/// Counts the elements of a tensor without gaps, in whatever order.
Status count(const Tensor& self, Tensor& totals, double low, double high) {
  const uint32_t zero = 0;
  AOTIP_RETURN_IF_FAILED(cuda::fill(totals, &zero));
  if (self.numel() == 0) {
    return Status::kOk;
  }
  constexpr int64_t kBlock = cuda::kHistogramThreads * cuda::kHistogramElements;
  const std::string name = std::string("aotip_histogram_") + dtype_name(self.dtype());
  void* to = totals.data();
  const void* from = self.data();
  int64_t numel = self.numel();
  int32_t bins = static_cast<int32_t>(totals.numel());
  void* arguments[] = {&to, &from, &numel, &bins, &low, &high};
  return cuda::launch_blocks(self.device().index, name.c_str(), (numel + kBlock - 1) / kBlock,
                             cuda::kHistogramThreads, arguments);
}

Status histc(const Tensor& self, int64_t bins, double low, double high, AtenTensorHandle* ret0) {
  AOTIP_RETURN_IF_FAILED(check(self, bins, low, high));
  const cuda::ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(cuda::use_gpu(self.device().index));
  OwnedTensor dense;
  if (!self.is_dense()) {
    dense = cuda::row_major_copy(self);
    AOTIP_RETURN_IF_NULL(dense);
  }
  const OwnedTensor totals(Tensor::empty(1, &bins, kUInt32, self.device()));
  OwnedTensor out(Tensor::empty(1, &bins, self.dtype(), self.device()));
  if (totals == nullptr || out == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(count(dense != nullptr ? *dense : self, *totals, low, high));
  AOTIP_RETURN_IF_FAILED(cuda::cuda_device().copy(*out, *totals));
  return give(out.release(), ret0);
}

}  // namespace

AOTITorchError aoti_torch_cuda_histc(AtenTensorHandle self, int64_t bins, double min, double max,
                                     AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self);
    AOTIP_CHECK_ARG(ret0);
    return histc(*unwrap(self), bins, min, max, ret0);
  });
}
