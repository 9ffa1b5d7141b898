// cumsum and cumprod.

#include <aoti_plugins/cuda_shim.h>

#include <algorithm>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/ops/lines.h"
#include "shim/run_shim.h"
#include "shim/wrap_dim.h"

using namespace aoti_plugins;

namespace {

Status run(const Tensor& self, Tensor& out, int64_t dim, bool product) {
  if (out.numel() == 0) {
    return Status::kOk;
  }
  cuda::Lines lines;
  const Tensor* const tensors[] = {&out, &self};
  AOTIP_RETURN_IF_FAILED(cuda::make_lines(tensors, 2, dim, &lines));
  unsigned int threads = 32;
  while (threads < cuda::kScanThreads && threads < lines.length) {
    threads *= 2;
  }
  void* to = out.data();
  const void* from = self.data();
  int32_t to_dtype = out.dtype();
  int32_t from_dtype = self.dtype();
  int32_t is_product = product ? 1 : 0;
  void* arguments[] = {&to, &to_dtype, &from, &from_dtype, &is_product, &lines};
  return cuda::launch_blocks(out.device().index, "aotip_scan", lines.count, threads, arguments);
}

Status scan(AtenTensorHandle self, int64_t dim, const int32_t* dtype, bool product,
            AtenTensorHandle* ret0) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_ARG(ret0);
  const Tensor& t = *unwrap(self);
  const int32_t from = t.dtype();
  const int32_t to = dtype != nullptr   ? *dtype
                     : is_integer(from) ? static_cast<int32_t>(kInt64)
                                        : from;
  AOTIP_CHECK(t.device().type == kCuda, "self is on %s, expected cuda",
              device_type_name(t.device().type));
  AOTIP_CHECK((is_integer(from) || is_real(from)) && (is_integer(to) || is_real(to)),
              "no running sum of %s as %s", dtype_name(from), dtype_name(to));
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  const cuda::ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(cuda::use_gpu(t.device().index));
  Tensor* out = Tensor::empty(t.ndim(), t.sizes(), to, t.device());
  if (out == nullptr) {
    return Status::kFailed;
  }
  if (run(t, *out, dim, product) != Status::kOk) {
    Tensor::destroy(out);
    return Status::kFailed;
  }
  *ret0 = wrap(out);
  return Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_cuda_cumsum(AtenTensorHandle self, int64_t dim, int32_t* dtype,
                                      AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] { return scan(self, dim, dtype, false, ret0); });
}

AOTITorchError aoti_torch_cuda_cumprod(AtenTensorHandle self, int64_t dim, int32_t* dtype,
                                       AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] { return scan(self, dim, dtype, true, ret0); });
}
