// The C shims of the operators of Apple GPUs that other devices have, too.

#include <aoti_plugins/mps_op_shims.h>

#include "mps/ops/operators.h"
#include "mps/session/mps_device.h"

namespace aoti_plugins::mps {

Status Operators::copy(Tensor& out, const Tensor& self) {
  return mps_device().copy(out, self);
}

}  // namespace aoti_plugins::mps

#define AOTIP_DEVICE mps
#define AOTIP_TABLE mps::Operators
#include "ops/fft_shims.inc"
#include "ops/linear_shims.inc"
#include "ops/recurrent_shims.inc"
#include "ops/shims.inc"
