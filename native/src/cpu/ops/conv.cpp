#include "cpu/ops/conv.h"

#include <type_traits>

#include "cpu/math/packed_convolution.h"
#include "cpu/ops/dense.h"
#include "cpu/ops/operators.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {
namespace {

template <typename T>
ConvData<T> data_of(const Tensor& input, const Tensor& weight, const Tensor* bias, Tensor& out) {
  return {input.data_as<T>(), weight.data_as<T>(), bias != nullptr ? bias->data_as<T>() : nullptr,
          out.data_as<T>()};
}

template <typename T>
Status run(const ConvPlan& plan, const Tensor& input, const Tensor& weight, const Tensor* bias,
           Tensor& out) {
  const ConvData<T> data = data_of<T>(input, weight, bias, out);
  if constexpr (std::is_same_v<T, float>) {
    const auto packed = plan.transposed ? std::nullopt : packed_convolution(plan, data);
    if (packed.has_value()) {
      return *packed;
    }
  }
  return plan.transposed ? conv_transposed(plan, data) : conv_forward(plan, data);
}

/// Keeps the result between `data.least` and `data.most`, where NaN stays, and activates it.
void end_result(const ConvPlan& plan, const ConvData<float>& data) {
  const int64_t count = plan.batch * plan.out_pixels() * plan.out_channels;
  for (int64_t i = 0; i < count; ++i) {
    const float value = data.output[i] < data.least ? data.least : data.output[i];
    data.output[i] = value > data.most ? data.most : value;
  }
  if (data.activation != nullptr) {
    data.activation(data.output, count);
  }
}

}  // namespace

Tensor* ended_convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                          const Tensor* bias, const ConvEnd& end) {
  OwnedTensor result(make_conv_output(plan, kFloat32, Device{}));
  OwnedTensor owners[3];
  const Tensor* in = as_conv_layout(input, kFloat32, true, &owners[0]);
  const Tensor* w = as_conv_layout(weight, kFloat32, true, &owners[1]);
  const Tensor* b = bias != nullptr ? as_conv_layout(*bias, kFloat32, false, &owners[2]) : nullptr;
  if (result == nullptr || in == nullptr || w == nullptr || (bias != nullptr && b == nullptr)) {
    return nullptr;
  }
  ConvData<float> data = data_of<float>(*in, *w, b, *result);
  data.least = end.least;
  data.most = end.most;
  data.activation = end.activation;
  if (const std::optional<Status> packed = packed_convolution(plan, data)) {
    return *packed == Status::kOk ? result.release() : nullptr;
  }
  if (conv_forward(plan, data) != Status::kOk) {
    return nullptr;
  }
  end_result(plan, data);
  return result.release();
}

Tensor* Operators::convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                               const Tensor* bias) {
  const int32_t dtype = input.dtype();
  const bool reduced = dtype == kFloat16 || dtype == kBFloat16;
  if (!reduced && dtype != kFloat32 && dtype != kFloat64) {
    (void)fail("no convolution for %s", dtype_name(dtype));
    return nullptr;
  }
  const int32_t compute = reduced ? static_cast<int32_t>(kFloat32) : dtype;
  OwnedTensor result(make_conv_output(plan, dtype, Device{}));
  ConvPlan inner = plan;
  inner.channels_last = plan.channels_last && !plan.transposed;
  OwnedTensor owners[4];
  const Tensor* in = as_conv_layout(input, compute, inner.channels_last, &owners[0]);
  const Tensor* w = as_conv_layout(weight, compute, inner.channels_last, &owners[1]);
  const Tensor* b = bias != nullptr ? as_conv_layout(*bias, compute, false, &owners[2]) : nullptr;
  if (result == nullptr || in == nullptr || w == nullptr || (bias != nullptr && b == nullptr)) {
    return nullptr;
  }
  Tensor* out = result.get();
  if (reduced || inner.channels_last != plan.channels_last) {
    owners[3].reset(make_conv_output(inner, compute, Device{}));
    out = owners[3].get();
  }
  if (out == nullptr) {
    return nullptr;
  }
  const Status status = compute == kFloat64 ? run<double>(inner, *in, *w, b, *out)
                                            : run<float>(inner, *in, *w, b, *out);
  if (status != Status::kOk ||
      (out != result.get() && strided_copy(*result, *out) != Status::kOk)) {
    return nullptr;
  }
  return result.release();
}

}  // namespace aoti_plugins::cpu
