// The C shims of the matrix products.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/matmul.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

Status product(AtenTensorHandle out, AtenTensorHandle a, AtenTensorHandle b, bool batched) {
  AOTIP_CHECK_TENSOR(out);
  AOTIP_CHECK_TENSOR(a);
  AOTIP_CHECK(unwrap(out)->dtype() == unwrap(a)->dtype(),
              "the matrices are %s, expected %s as the result", dtype_name(unwrap(a)->dtype()),
              dtype_name(unwrap(out)->dtype()));
  return cuda::matmul(unwrap(out), nullptr, unwrap(a), unwrap(b), 0.0, 1.0, batched);
}

Status product_add(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle a,
                   AtenTensorHandle b, double beta, double alpha, bool batched) {
  AOTIP_CHECK_ARG(self);
  return cuda::matmul(unwrap(out), unwrap(self), unwrap(a), unwrap(b), beta, alpha, batched);
}

}  // namespace

AOTITorchError aoti_torch_cuda_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                      AtenTensorHandle mat2) {
  return run_shim(__func__, [&] { return product(out, self, mat2, false); });
}

AOTITorchError aoti_torch_cuda_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                       AtenTensorHandle mat2) {
  return run_shim(__func__, [&] { return product(out, self, mat2, true); });
}

AOTITorchError aoti_torch_cuda_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                         AtenTensorHandle mat1, AtenTensorHandle mat2, double beta,
                                         double alpha) {
  return run_shim(__func__, [&] { return product_add(out, self, mat1, mat2, beta, alpha, false); });
}

AOTITorchError aoti_torch_cuda_baddbmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                           AtenTensorHandle batch1, AtenTensorHandle batch2,
                                           double beta, double alpha) {
  return run_shim(__func__,
                  [&] { return product_add(out, self, batch1, batch2, beta, alpha, true); });
}

AOTITorchError aoti_torch_cuda__int_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                           AtenTensorHandle mat2) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(out);
    AOTIP_CHECK_TENSOR(self);
    AOTIP_CHECK(unwrap(self)->dtype() == kInt8 && unwrap(out)->dtype() == kInt32,
                "%s matrices and a result of %s, expected int8 and int32",
                dtype_name(unwrap(self)->dtype()), dtype_name(unwrap(out)->dtype()));
    return cuda::matmul(unwrap(out), nullptr, unwrap(self), unwrap(mat2), 0.0, 1.0, false);
  });
}

AOTITorchError aoti_torch_cuda__addmm_activation(AtenTensorHandle self, AtenTensorHandle mat1,
                                                 AtenTensorHandle mat2, double beta, double alpha,
                                                 int32_t use_gelu, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(self);
    AOTIP_CHECK_TENSOR(mat1);
    AOTIP_CHECK_TENSOR(mat2);
    AOTIP_CHECK_ARG(ret0);
    const Tensor& a = *unwrap(mat1);
    const Tensor& b = *unwrap(mat2);
    AOTIP_CHECK(a.ndim() == 2 && b.ndim() == 2, "matrices of %lld and %lld dims, expected 2",
                static_cast<long long>(a.ndim()), static_cast<long long>(b.ndim()));
    const int64_t sizes[] = {a.size(0), b.size(1)};
    Tensor* out = Tensor::empty(2, sizes, a.dtype(), a.device());
    if (out == nullptr) {
      return Status::kFailed;
    }
    const Status status =
        cuda::matmul(out, unwrap(self), &a, &b, beta, alpha, false,
                     use_gelu != 0 ? cuda::Activation::kGelu : cuda::Activation::kRelu);
    if (status != Status::kOk) {
      Tensor::destroy(out);
      return status;
    }
    *ret0 = wrap(out);
    return Status::kOk;
  });
}
