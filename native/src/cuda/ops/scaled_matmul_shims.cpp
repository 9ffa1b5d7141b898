// The C shims of products of float8 matrices.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/matmul.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

Status scaled_product(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2,
                      AtenTensorHandle scale_a, AtenTensorHandle scale_b, AtenTensorHandle* bias,
                      AtenTensorHandle* scale_result, bool fast) {
  AOTIP_CHECK_TENSORS(out, self, mat2, scale_a, scale_b);
  const Tensor* first = unwrap(scale_a);
  const Tensor* second = unwrap(scale_b);
  const bool by_row = first->numel() != 1 || second->numel() != 1;
  return cuda::scaled_matmul(
      *unwrap(out), *unwrap(self), *unwrap(mat2),
      {first, second, unwrap_optional(scale_result), unwrap_optional(bias), by_row, fast});
}

}  // namespace

AOTITorchError aoti_torch_cuda__scaled_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                              AtenTensorHandle mat2, AtenTensorHandle scale_a,
                                              AtenTensorHandle scale_b, AtenTensorHandle* bias,
                                              AtenTensorHandle* scale_result, int32_t* out_dtype,
                                              int32_t use_fast_accum) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(out);
    AOTIP_CHECK(out_dtype == nullptr || *out_dtype == unwrap(out)->dtype(),
                "out is %s, expected %s as out_dtype", dtype_name(unwrap(out)->dtype()),
                dtype_name(*out_dtype));
    return scaled_product(out, self, mat2, scale_a, scale_b, bias, scale_result,
                          use_fast_accum != 0);
  });
}

AOTITorchError aoti_torch_cuda__scaled_mm(AtenTensorHandle self, AtenTensorHandle mat2,
                                          AtenTensorHandle scale_a, AtenTensorHandle scale_b,
                                          AtenTensorHandle* bias, AtenTensorHandle* scale_result,
                                          int32_t* out_dtype, int32_t use_fast_accum,
                                          AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self, mat2);
    AOTIP_CHECK_ARG(ret0);
    const Tensor& a = *unwrap(self);
    const Tensor& b = *unwrap(mat2);
    AOTIP_CHECK(a.ndim() == 2 && b.ndim() == 2, "matrices of %lld and %lld dims, expected 2",
                static_cast<long long>(a.ndim()), static_cast<long long>(b.ndim()));
    const int64_t sizes[] = {a.size(0), b.size(1)};
    OwnedTensor out(
        Tensor::empty(2, sizes, out_dtype != nullptr ? *out_dtype : a.dtype(), a.device()));
    AOTIP_RETURN_IF_NULL(out);
    AOTIP_RETURN_IF_FAILED(scaled_product(wrap(out.get()), self, mat2, scale_a, scale_b, bias,
                                          scale_result, use_fast_accum != 0));
    return give(out.release(), ret0);
  });
}
