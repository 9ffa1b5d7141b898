// The C shims of the matrix products.

#include <aoti_plugins/mps_op_shims.h>

#include "mps/ops/matmul.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_mps_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                     AtenTensorHandle mat2) {
  return run_shim(__func__, [&] {
    return mps::matmul(unwrap(out), nullptr, unwrap(self), unwrap(mat2), 0.0, 1.0, false);
  });
}

AOTITorchError aoti_torch_mps_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                      AtenTensorHandle mat2) {
  return run_shim(__func__, [&] {
    return mps::matmul(unwrap(out), nullptr, unwrap(self), unwrap(mat2), 0.0, 1.0, true);
  });
}

AOTITorchError aoti_torch_mps_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                        AtenTensorHandle mat1, AtenTensorHandle mat2, double beta,
                                        double alpha) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(self);
    return mps::matmul(unwrap(out), unwrap(self), unwrap(mat1), unwrap(mat2), beta, alpha, false);
  });
}

AOTITorchError aoti_torch_mps_baddbmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                          AtenTensorHandle batch1, AtenTensorHandle batch2,
                                          double beta, double alpha) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(self);
    return mps::matmul(unwrap(out), unwrap(self), unwrap(batch1), unwrap(batch2), beta, alpha,
                       true);
  });
}
