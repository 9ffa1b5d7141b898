// The C shim of convolution.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/conv.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cuda_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
    int64_t dilation_len_, int32_t transposed, const int64_t* output_padding,
    int64_t output_padding_len_, int64_t groups, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(input);
    AOTIP_CHECK_TENSOR(weight);
    AOTIP_CHECK_ARG(ret0);
    const Tensor* b = bias != nullptr ? unwrap(*bias) : nullptr;
    b = b != nullptr && b->defined() ? b : nullptr;
    const ConvList strides{"stride", stride, stride_len_};
    const ConvList paddings{"padding", padding, padding_len_};
    const ConvList dilations{"dilation", dilation, dilation_len_};
    const ConvList extra{"output_padding", output_padding, output_padding_len_};
    ConvPlan plan;
    AOTIP_RETURN_IF_FAILED(make_conv_plan(*unwrap(input), *unwrap(weight), b, strides, paddings,
                                          dilations, extra, transposed != 0, groups, kCuda, &plan));
    return give(cuda::convolution(plan, *unwrap(input), *unwrap(weight), b), ret0);
  });
}
