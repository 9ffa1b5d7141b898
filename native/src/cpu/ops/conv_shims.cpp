// The C shims of convolution.

#include "cpu/ops/conv.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

Status convolve(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle bias,
                const ConvList& stride, const ConvList& padding, const ConvList& dilation,
                bool transposed, const ConvList& output_padding, int64_t groups,
                AtenTensorHandle* ret) {
  AOTIP_CHECK_TENSOR(input);
  AOTIP_CHECK_TENSOR(weight);
  AOTIP_CHECK_ARG(ret);
  const Tensor* bias_tensor = bias != nullptr && unwrap(bias)->defined() ? unwrap(bias) : nullptr;
  ConvPlan plan;
  AOTIP_RETURN_IF_FAILED(make_conv_plan(*unwrap(input), *unwrap(weight), bias_tensor, stride,
                                        padding, dilation, output_padding, transposed, groups, kCpu,
                                        &plan));
  return give(cpu::convolution(plan, *unwrap(input), *unwrap(weight), bias_tensor), ret);
}

}  // namespace

AOTITorchError aoti_torch_cpu_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
    int64_t dilation_len_, int32_t transposed, const int64_t* output_padding,
    int64_t output_padding_len_, int64_t groups, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    return convolve(input, weight, bias != nullptr ? *bias : nullptr,
                    {"stride", stride, stride_len_}, {"padding", padding, padding_len_},
                    {"dilation", dilation, dilation_len_}, transposed != 0,
                    {"output_padding", output_padding, output_padding_len_}, groups, ret0);
  });
}

AOTITorchError aoti_torch_convolution(AtenTensorHandle input, AtenTensorHandle weight,
                                      AtenTensorHandle bias, const int64_t* stride_ptr,
                                      int64_t stride_size, const int64_t* padding_ptr,
                                      int64_t padding_size, const int64_t* dilation_ptr,
                                      int64_t dilation_size, int transposed,
                                      const int64_t* output_padding_ptr,
                                      int64_t output_padding_size, int64_t groups,
                                      AtenTensorHandle* ret) {
  return run_shim(__func__, [&] {
    return convolve(input, weight, bias, {"stride", stride_ptr, stride_size},
                    {"padding", padding_ptr, padding_size},
                    {"dilation", dilation_ptr, dilation_size}, transposed != 0,
                    {"output_padding", output_padding_ptr, output_padding_size}, groups, ret);
  });
}
