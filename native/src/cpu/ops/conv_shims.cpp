// The C shim of convolutions with limits.

#include <aoti_plugins/shim.h>

#include <limits>

#include "cpu/ops/conv.h"
#include "ops/conv_plan.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cpu_clamped_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
    int64_t dilation_len_, int64_t groups, double* least, double* most, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(input);
    AOTIP_CHECK_TENSOR(weight);
    AOTIP_CHECK_ARG(ret0);
    const Tensor& in = *unwrap(input);
    AOTIP_CHECK(in.dtype() == kFloat32 && in.ndim() == 4,
                "input is %s of %lld dims, expected float32 of 4", dtype_name(in.dtype()),
                static_cast<long long>(in.ndim()));
    const int64_t none = 0;
    const Tensor* b = unwrap_optional(bias);
    ConvPlan plan;
    AOTIP_RETURN_IF_FAILED(
        make_conv_plan(in, *unwrap(weight), b, {"stride", stride, stride_len_},
                       {"padding", padding, padding_len_}, {"dilation", dilation, dilation_len_},
                       {"output_padding", &none, 1}, false, groups, kCpu, &plan));
    plan.channels_last = true;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return give(cpu::clamped_convolution(plan, in, *unwrap(weight), b,
                                         least != nullptr ? static_cast<float>(*least) : -kInfinity,
                                         most != nullptr ? static_cast<float>(*most) : kInfinity),
                ret0);
  });
}
