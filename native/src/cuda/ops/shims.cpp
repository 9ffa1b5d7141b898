// The C shims of CUDA's operators that other devices have, too.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/driver/cuda_device.h"
#include "cuda/ops/matmul.h"
#include "cuda/ops/operators.h"
#include "ops/fill.h"

namespace aoti_plugins::cuda {

Status Operators::matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b,
                         double beta, double alpha) {
  return cuda::matmul(out, self, a, b, beta, alpha);
}

Status Operators::copy(Tensor& out, const Tensor& self) {
  return cuda_device().copy(out, self);
}

Status Operators::fill(Tensor& tensor, const void* element) {
  return cuda::fill(tensor, element);
}

}  // namespace aoti_plugins::cuda

#define AOTIP_DEVICE cuda
#define AOTIP_TABLE cuda::Operators
#include "ops/fft_shims.inc"
#include "ops/recurrent_shims.inc"
#include "ops/shims.inc"

AOTITorchError aoti_torch_cuda_fill__Scalar(AtenTensorHandle self, double value) {
  return run_shim(__func__, [&] { return ops::fill<cuda::Operators>(self, value); });
}
