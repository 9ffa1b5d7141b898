// The C shims of convolutions with limits.

#include <aoti_plugins/shim.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/ops/conv.h"
#include "cpu/ops/quantized_convolution.h"
#include "ops/conv_plan.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

/// The lists that say where a kernel stands.
struct Places {
  ConvList stride;
  ConvList padding;
  ConvList dilation;
};

/// Checks a convolution over two dims, not transposed, of one dtype, and plans it channels-last.
Status plan_channels_last(const Tensor& input, const Tensor& weight, const Tensor* bias,
                          int32_t dtype, const Places& places, int64_t groups, ConvPlan* ret) {
  AOTIP_CHECK(input.dtype() == dtype && input.ndim() == 4,
              "input is %s of %lld dims, expected %s of 4", dtype_name(input.dtype()),
              static_cast<long long>(input.ndim()), dtype_name(dtype));
  const int64_t none = 0;
  AOTIP_RETURN_IF_FAILED(make_conv_plan(input, weight, bias, places.stride, places.padding,
                                        places.dilation, {"output_padding", &none, 1}, false,
                                        groups, kCpu, ret, true));
  ret->channels_last = true;
  return Status::kOk;
}

Status check_channels(const Tensor& numbers, const char* name, int64_t channels) {
  AOTIP_CHECK(
      numbers.device().type == kCpu && numbers.dtype() == kFloat32 && numbers.numel() == channels,
      "%s is %s of %lld elements, expected float32 of %lld", name, dtype_name(numbers.dtype()),
      static_cast<long long>(numbers.numel()), static_cast<long long>(channels));
  return Status::kOk;
}

Status check_scale(const char* name, double scale, int64_t zero) {
  AOTIP_CHECK(scale > 0 && std::isfinite(scale) && zero >= -128 && zero <= 127,
              "%s: scale %g and zero %lld, expected a positive one, and one of 8 bits", name, scale,
              static_cast<long long>(zero));
  return Status::kOk;
}

/// The number of 8 bits that stands for a limit; `number` where there is none.
int32_t limit(const double* value, const cpu::Quantized& y, int32_t number) {
  if (value == nullptr) {
    return number;
  }
  const double found = std::nearbyint(*value / y.scale) + y.zero;
  return static_cast<int32_t>(std::clamp(found, -128.0, 127.0));
}

/// A convolution of float32 for the shims.
Status convolve(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias,
                const Places& places, int64_t groups, const cpu::ConvEnd& end,
                AtenTensorHandle* ret) {
  AOTIP_CHECK_TENSORS(input, weight);
  AOTIP_CHECK_ARG(ret);
  const Tensor& in = *unwrap(input);
  const Tensor* b = unwrap_optional(bias);
  ConvPlan plan;
  AOTIP_RETURN_IF_FAILED(
      plan_channels_last(in, *unwrap(weight), b, kFloat32, places, groups, &plan));
  return give(cpu::ended_convolution(plan, in, *unwrap(weight), b, end), ret);
}

}  // namespace

AOTITorchError aoti_torch_cpu_clamped_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
    int64_t dilation_len_, int64_t groups, double* least, double* most, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    cpu::ConvEnd end;
    end.least = least != nullptr ? static_cast<float>(*least) : end.least;
    end.most = most != nullptr ? static_cast<float>(*most) : end.most;
    const Places places{{"stride", stride, stride_len_},
                        {"padding", padding, padding_len_},
                        {"dilation", dilation, dilation_len_}};
    return convolve(input, weight, bias, places, groups, end, ret0);
  });
}

AOTITorchError aoti_torch_cpu_activated_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
    int64_t dilation_len_, int64_t groups, const char* activation, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(activation);
    cpu::ConvEnd end;
    end.activation = cpu::activation_named(activation);
    AOTIP_CHECK(end.activation != nullptr,
                "activation is '%s', expected hardsigmoid, hardswish, sigmoid or silu", activation);
    const Places places{{"stride", stride, stride_len_},
                        {"padding", padding, padding_len_},
                        {"dilation", dilation, dilation_len_}};
    return convolve(input, weight, bias, places, groups, end, ret0);
  });
}

AOTITorchError aoti_torch_cpu_quantized_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle scale, AtenTensorHandle* bias,
    const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t padding_len_,
    const int64_t* dilation, int64_t dilation_len_, int64_t groups, double x_scale, int64_t x_zero,
    double y_scale, int64_t y_zero, double* least, double* most, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(input, weight, scale);
    AOTIP_CHECK_ARG(ret0);
    const Places places{{"stride", stride, stride_len_},
                        {"padding", padding, padding_len_},
                        {"dilation", dilation, dilation_len_}};
    ConvPlan plan;
    AOTIP_RETURN_IF_FAILED(
        plan_channels_last(*unwrap(input), *unwrap(weight), nullptr, kInt8, places, groups, &plan));
    AOTIP_RETURN_IF_FAILED(check_channels(*unwrap(scale), "scale", plan.out_channels));
    const Tensor* b = unwrap_optional(bias);
    if (b != nullptr) {
      AOTIP_RETURN_IF_FAILED(check_channels(*b, "bias", plan.out_channels));
    }
    AOTIP_RETURN_IF_FAILED(check_scale("x", x_scale, x_zero));
    AOTIP_RETURN_IF_FAILED(check_scale("y", y_scale, y_zero));
    cpu::QuantizedConvolution call{unwrap(input), unwrap(weight), unwrap(scale), b, {}, {}, 0, 0};
    call.x = {static_cast<float>(x_scale), static_cast<int32_t>(x_zero)};
    call.y = {static_cast<float>(y_scale), static_cast<int32_t>(y_zero)};
    call.least = limit(least, call.y, -128);
    call.most = limit(most, call.y, 127);
    AOTIP_CHECK(call.least <= call.most, "the least result is more than the most");
    return give(cpu::quantized_convolution(plan, call), ret0);
  });
}
