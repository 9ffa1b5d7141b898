// cumsum and cumprod.

#include <algorithm>

#include "cuda/driver/device_kernels.h"
#include "cuda/kernels/lines.h"
#include "cuda/ops/operators.h"
#include "ops/lines.h"

namespace aoti_plugins::cuda {

Status Operators::scan(const Tensor& self, Tensor& out, int64_t dim, bool product) {
  Lines lines;
  const Tensor* const tensors[] = {&out, &self};
  AOTIP_RETURN_IF_FAILED(describe_lines(tensors, 2, dim, kLinesMaxDims, &lines));
  unsigned int threads = 32;
  while (threads < kScanThreads && threads < lines.length) {
    threads *= 2;
  }
  void* to = out.data();
  const void* from = self.data();
  int32_t to_dtype = out.dtype();
  int32_t from_dtype = self.dtype();
  int32_t is_product = product ? 1 : 0;
  void* arguments[] = {&to, &to_dtype, &from, &from_dtype, &is_product, &lines};
  return launch_blocks(out.device().index, "aotip_scan", lines.count, threads, arguments);
}

}  // namespace aoti_plugins::cuda
