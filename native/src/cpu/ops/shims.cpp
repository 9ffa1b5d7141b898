// The C shims of the CPU's operators, also under the names that PyTorch gives to no device.

#include <aoti_plugins/shim.h>

#include "cpu/ops/operators.h"
#include "ops/fill.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {

Status Operators::copy(Tensor& out, const Tensor& self) {
  return strided_copy(out, self);
}

Status Operators::fill(Tensor& tensor, const void* element) {
  const int64_t zeros[Tensor::kMaxDims] = {};
  strided_copy_raw(tensor.data(), tensor.strides(), element, zeros, tensor.ndim(), tensor.sizes(),
                   tensor.itemsize());
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu

#define AOTIP_DEVICE cpu
#define AOTIP_TABLE cpu::Operators
#include "ops/linear_shims.inc"
#include "ops/shims.inc"

AOTITorchError aoti_torch_cpu_fill__Scalar(AtenTensorHandle self, double value) {
  return run_shim(__func__, [&] { return ops::fill<cpu::Operators>(self, value); });
}

AOTITorchError aoti_torch_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                 AtenTensorHandle mat2) {
  return aoti_torch_cpu_mm_out(out, self, mat2);
}

AOTITorchError aoti_torch_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                  AtenTensorHandle mat2) {
  return aoti_torch_cpu_bmm_out(out, self, mat2);
}

AOTITorchError aoti_torch_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                    AtenTensorHandle mat1, AtenTensorHandle mat2, float beta,
                                    float alpha) {
  return aoti_torch_cpu_addmm_out(out, self, mat1, mat2, beta, alpha);
}

AOTITorchError aoti_torch__mm_plus_mm_out(AtenTensorHandle out, AtenTensorHandle a,
                                          AtenTensorHandle b, AtenTensorHandle c,
                                          AtenTensorHandle d) {
  const AOTITorchError error = aoti_torch_cpu_mm_out(out, a, b);
  return error != kShimSuccess ? error : aoti_torch_cpu_addmm_out(out, out, c, d, 1.0, 1.0);
}

AOTITorchError aoti_torch_convolution(AtenTensorHandle input, AtenTensorHandle weight,
                                      AtenTensorHandle bias, const int64_t* stride_ptr,
                                      int64_t stride_size, const int64_t* padding_ptr,
                                      int64_t padding_size, const int64_t* dilation_ptr,
                                      int64_t dilation_size, int transposed,
                                      const int64_t* output_padding_ptr,
                                      int64_t output_padding_size, int64_t groups,
                                      AtenTensorHandle* ret) {
  return aoti_torch_cpu_convolution(input, weight, &bias, stride_ptr, stride_size, padding_ptr,
                                    padding_size, dilation_ptr, dilation_size, transposed,
                                    output_padding_ptr, output_padding_size, groups, ret);
}

AOTITorchError aoti_torch_scatter_out(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                                      AtenTensorHandle index, AtenTensorHandle src) {
  return aoti_torch_cpu_scatter_src_out(out, self, dim, index, src);
}

AOTITorchError aoti_torch_scatter_reduce_out(AtenTensorHandle out, AtenTensorHandle self,
                                             int64_t dim, AtenTensorHandle index,
                                             AtenTensorHandle src, const char* reduce,
                                             int32_t include_self) {
  return aoti_torch_cpu_scatter_reduce_two_out(out, self, dim, index, src, reduce, include_self);
}
