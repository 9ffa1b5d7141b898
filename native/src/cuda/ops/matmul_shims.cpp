// Matrix products that only CUDA has: of int8, and with an activation.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/matmul.h"
#include "ops/matmul_checks.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cuda__int_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                           AtenTensorHandle mat2) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(out, self);
    AOTIP_CHECK(unwrap(self)->dtype() == kInt8 && unwrap(out)->dtype() == kInt32,
                "%s matrices and a result of %s, expected int8 and int32",
                dtype_name(unwrap(self)->dtype()), dtype_name(unwrap(out)->dtype()));
    AOTIP_RETURN_IF_FAILED(
        ops::check_product(unwrap(out), nullptr, unwrap(self), unwrap(mat2), false, kCuda));
    return cuda::matmul(*unwrap(out), nullptr, *unwrap(self), *unwrap(mat2), 0.0, 1.0);
  });
}

AOTITorchError aoti_torch_cuda__addmm_activation(AtenTensorHandle self, AtenTensorHandle mat1,
                                                 AtenTensorHandle mat2, double beta, double alpha,
                                                 int32_t use_gelu, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self, mat1, mat2);
    AOTIP_CHECK_ARG(ret0);
    const Tensor& a = *unwrap(mat1);
    const Tensor& b = *unwrap(mat2);
    AOTIP_CHECK(a.ndim() == 2 && b.ndim() == 2, "matrices of %lld and %lld dims, expected 2",
                static_cast<long long>(a.ndim()), static_cast<long long>(b.ndim()));
    const int64_t sizes[] = {a.size(0), b.size(1)};
    OwnedTensor out(Tensor::empty(2, sizes, a.dtype(), a.device()));
    AOTIP_RETURN_IF_NULL(out);
    AOTIP_RETURN_IF_FAILED(ops::check_product(out.get(), unwrap(self), &a, &b, false, kCuda));
    AOTIP_RETURN_IF_FAILED(
        cuda::matmul(*out, unwrap(self), a, b, beta, alpha,
                     use_gelu != 0 ? cuda::Activation::kGelu : cuda::Activation::kRelu));
    return give(out.release(), ret0);
  });
}
