#include "cpu/ops/quantized_convolution.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/libraries/xnnpack.h"
#include "cpu/math/folded_width.h"
#include "cpu/math/packed_images.h"
#include "cpu/math/readable_behind.h"
#include "cpu/math/scratch.h"
#include "cpu/memory/constant_memory.h"
#include "cpu/ops/conv.h"
#include "cpu/ops/dense.h"
#include "slim/half.h"

namespace aoti_plugins::cpu {
namespace {

constexpr int32_t kKind = 5;

/// What is convolved, without gaps and channels-last.
struct Data {
  const int8_t* input;
  const int8_t* weight;
  const float* scale;
  const float* bias;
  int8_t* output;
};

/// The bias as XNNPACK adds it: in units of a product of two numbers.
std::vector<int32_t> bias_of(const Data& d, const QuantizedConvolution& c, int64_t begin,
                             int64_t count) {
  std::vector<int32_t> found;
  for (int64_t i = begin; d.bias != nullptr && i < begin + count; ++i) {
    const double value = std::nearbyint(double(d.bias[i]) / (double(c.x.scale) * d.scale[i]));
    found.push_back(static_cast<int32_t>(std::clamp(value, -2147483000.0, 2147483000.0)));
  }
  return found;
}

int create(const Xnnpack& library, const ConvPlan& plan, const Data& d,
           const QuantizedConvolution& c, const ImageRows& rows, int64_t begin, int64_t count,
           XnnWeightsCache* cache, XnnOperator** ret) {
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  const auto byte = [](int32_t value) { return static_cast<int8_t>(value); };
  const int64_t weights = plan.in_per_group() * plan.kernel_numel();
  const std::vector<int32_t> sums = bias_of(d, c, begin, count);
  const ReadableBehind<int8_t> kernel(d.weight + begin * weights, count * weights);
  const ReadableBehind<float> scale(d.scale + begin, count);
  const ReadableBehind<int32_t> bias(sums.empty() ? nullptr : sums.data(), count);
  if (kernel.data() == nullptr || scale.data() == nullptr ||
      (!sums.empty() && bias.data() == nullptr)) {
    return ~kXnnSuccess;
  }
  return library.create_convolution2d_nhwc_qs8_qc8w(
      number(rows.padding_top), number(plan.padding_end[2]), number(rows.padding_bottom),
      number(plan.padding[2]), number(plan.kernel[1]), number(plan.kernel[2]),
      number(plan.stride[1]), number(plan.stride[2]), number(plan.dilation[1]),
      number(plan.dilation[2]), number(plan.groups), plan.in_per_group(), count / plan.groups,
      plan.in_channels, plan.out_channels, byte(c.x.zero), c.x.scale, scale.data(), kernel.data(),
      bias.data(), byte(c.y.zero), c.y.scale, byte(c.least), byte(c.most), 0, cache, ret);
}

std::optional<Status> convolve_packed(const ConvPlan& plan, const Data& d,
                                      const QuantizedConvolution& c) {
  const Xnnpack* library = fits_xnnpack(plan) ? xnnpack() : nullptr;
  if (library == nullptr) {
    return std::nullopt;
  }
  const size_t weights = plan.out_channels * plan.in_per_group() * plan.kernel_numel();
  const size_t channels = plan.out_channels * sizeof(float);
  DerivedKey key{kKind,
                 {{d.weight, weights}, {d.scale, channels}, {d.bias, channels}},
                 {float_to_bits(c.x.scale), c.x.zero, float_to_bits(c.y.scale), c.y.zero,
                  c.least * 256 + c.most}};
  const bool is_folded = is_width_folded(plan);
  const ConvPlan packed_plan = is_folded ? with_folded_width(plan) : plan;
  add_to_key(packed_plan, &key);
  const auto packed = derive(key, [&]() -> std::shared_ptr<Derived> {
    auto found = std::make_shared<PackedImages>(
        *library, packed_plan,
        [library, plan = packed_plan, d, c](const ImageRows& rows, int64_t begin, int64_t count,
                                            XnnWeightsCache* cache, XnnOperator** ret) {
          return create(*library, plan, d, c, rows, begin, count, cache, ret);
        });
    return found->can_run(packed_plan) ? found : nullptr;  // it has limits to what scales may be
  });
  if (packed == nullptr) {
    return std::nullopt;
  }
  const ReadableBehind<int8_t> input(d.input, plan.batch * plan.in_pixels() * plan.in_channels);
  if (input.data() == nullptr) {
    return std::nullopt;
  }
  return static_cast<PackedImages&>(*packed).run(
      packed_plan, [&](XnnOperator* op, int64_t image, const ImageRows& rows, int64_t channel) {
        const int8_t* from = input_of(plan, image, rows, input.data());
        Scratch folded;
        if (is_folded) {
          const int64_t pixels = rows.in_count * packed_plan.in[2];
          auto* to = folded.get<int8_t>(pixels * packed_plan.in_channels + kXnnExtraNbytes);
          if (to == nullptr) {
            return false;
          }
          fold_rows(plan, from, rows.in_count, static_cast<int8_t>(c.x.zero), to);
          from = to;
        }
        return run_rows(*library, library->reshape_convolution2d_nhwc_qs8_qc8w,
                        library->setup_convolution2d_nhwc_qs8_qc8w, packed_plan, op, rows, from,
                        output_of(plan, image, rows, d.output) + channel);
      });
}

/// With float64, which holds every sum as it is.
Status convolve_doubles(const ConvPlan& plan, const Data& d, const QuantizedConvolution& c) {
  const int64_t in = plan.batch * plan.in_pixels() * plan.in_channels;
  const int64_t out = plan.batch * plan.out_pixels() * plan.out_channels;
  const int64_t weights = plan.out_channels * plan.in_per_group() * plan.kernel_numel();
  Scratch scratch[3];
  double* x = scratch[0].get<double>(in);
  double* w = scratch[1].get<double>(weights);
  double* y = scratch[2].get<double>(out);
  AOTIP_CHECK(x != nullptr && w != nullptr && y != nullptr,
              "out of memory: a convolution as float64");
  std::transform(d.input, d.input + in, x, [&](int8_t value) { return value - c.x.zero; });
  std::copy_n(d.weight, weights, w);
  AOTIP_RETURN_IF_FAILED(conv_forward(plan, ConvData<double>{x, w, nullptr, y}));
  for (int64_t i = 0; i < out; ++i) {
    const int64_t channel = i % plan.out_channels;
    const double bias = d.bias != nullptr ? d.bias[channel] : 0.0;
    const double value = y[i] * c.x.scale * d.scale[channel] + bias;
    const double number = std::nearbyint(value / c.y.scale) + c.y.zero;
    d.output[i] = static_cast<int8_t>(std::clamp<double>(number, c.least, c.most));
  }
  return Status::kOk;
}

}  // namespace

Tensor* quantized_convolution(const ConvPlan& given, const QuantizedConvolution& c) {
  OwnedTensor result(make_conv_output(given, kInt8, Device{}));
  OwnedTensor owners[4];
  const Tensor* in = as_conv_layout(*c.input, kInt8, true, &owners[0]);
  const Tensor* w = as_conv_layout(*c.weight, kInt8, true, &owners[1]);
  const float* scale = as_dense<float>(*c.scale, kFloat32, &owners[2]);
  const float* bias = c.bias != nullptr ? as_dense<float>(*c.bias, kFloat32, &owners[3]) : nullptr;
  if (result == nullptr || in == nullptr || w == nullptr || scale == nullptr ||
      (c.bias != nullptr && bias == nullptr)) {
    return nullptr;
  }
  if (result->numel() == 0) {
    return result.release();
  }
  const Data data{in->data_as<int8_t>(), w->data_as<int8_t>(), scale, bias,
                  result->data_as<int8_t>()};
  ConvPlan plan = given;
  if (plan.is_pointwise() && plan.in_pixels() == 1) {  // a linear layer: its rows are one image's
    plan.in[1] = plan.out[1] = plan.batch;
    plan.batch = 1;
  }
  const std::optional<Status> packed = convolve_packed(plan, data, c);
  const Status status = packed.has_value() ? *packed : convolve_doubles(plan, data, c);
  return status == Status::kOk ? result.release() : nullptr;
}

}  // namespace aoti_plugins::cpu
