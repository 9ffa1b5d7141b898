// The C shims of the operators of Apple GPUs that other devices have, too.

#include <aoti_plugins/mps_op_shims.h>

#include "mps/ops/conv.h"
#include "mps/ops/matmul.h"
#include "mps/ops/operators.h"
#include "mps/ops/sort.h"
#include "mps/session/mps_device.h"

namespace aoti_plugins::mps {

Status Operators::matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b,
                         double beta, double alpha) {
  return mps::matmul(out, self, a, b, beta, alpha);
}

Tensor* Operators::convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                               const Tensor* bias) {
  return mps::convolution(plan, input, weight, bias);
}

Status Operators::sort_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                             int64_t count, bool descending) {
  return mps::sort_lines(self, values, places, dim, count, descending);
}

Status Operators::copy(Tensor& out, const Tensor& self) {
  return mps_device().copy(out, self);
}

}  // namespace aoti_plugins::mps

#define AOTIP_DEVICE mps
#define AOTIP_TABLE mps::Operators
#include "ops/fft_shims.inc"
#include "ops/shims.inc"
