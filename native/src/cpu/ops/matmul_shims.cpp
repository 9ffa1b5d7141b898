// The C shims of the matrix products.

#include "cpu/ops/matmul.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

Status product(AtenTensorHandle out, AtenTensorHandle a, AtenTensorHandle b, bool batched) {
  return cpu::matmul(unwrap(out), nullptr, unwrap(a), unwrap(b), 0.0, 1.0, batched);
}

Status product_add(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle a,
                   AtenTensorHandle b, double beta, double alpha, bool batched) {
  AOTIP_CHECK_ARG(self);
  return cpu::matmul(unwrap(out), unwrap(self), unwrap(a), unwrap(b), beta, alpha, batched);
}

}  // namespace

AOTITorchError aoti_torch_cpu_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                     AtenTensorHandle mat2) {
  return run_shim(__func__, [&] { return product(out, self, mat2, false); });
}

AOTITorchError aoti_torch_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                 AtenTensorHandle mat2) {
  return run_shim(__func__, [&] { return product(out, self, mat2, false); });
}

AOTITorchError aoti_torch_cpu_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                      AtenTensorHandle mat2) {
  return run_shim(__func__, [&] { return product(out, self, mat2, true); });
}

AOTITorchError aoti_torch_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                  AtenTensorHandle mat2) {
  return run_shim(__func__, [&] { return product(out, self, mat2, true); });
}

AOTITorchError aoti_torch_cpu_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                        AtenTensorHandle mat1, AtenTensorHandle mat2, double beta,
                                        double alpha) {
  return run_shim(__func__, [&] { return product_add(out, self, mat1, mat2, beta, alpha, false); });
}

AOTITorchError aoti_torch_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                    AtenTensorHandle mat1, AtenTensorHandle mat2, float beta,
                                    float alpha) {
  return run_shim(__func__, [&] { return product_add(out, self, mat1, mat2, beta, alpha, false); });
}

AOTITorchError aoti_torch_cpu_baddbmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                          AtenTensorHandle batch1, AtenTensorHandle batch2,
                                          double beta, double alpha) {
  return run_shim(__func__,
                  [&] { return product_add(out, self, batch1, batch2, beta, alpha, true); });
}

AOTITorchError aoti_torch__mm_plus_mm_out(AtenTensorHandle out, AtenTensorHandle a,
                                          AtenTensorHandle b, AtenTensorHandle c,
                                          AtenTensorHandle d) {
  return run_shim(__func__, [&] {
    AOTIP_RETURN_IF_FAILED(product(out, a, b, false));
    return product_add(out, out, c, d, 1.0, 1.0, false);
  });
}
