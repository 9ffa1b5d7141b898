#include "cpu/math/packed_convolution.h"

#include <memory>

#include "cpu/libraries/xnnpack.h"
#include "cpu/math/packed_images.h"
#include "cpu/math/readable_behind.h"
#include "cpu/memory/constant_memory.h"
#include "slim/half.h"

namespace aoti_plugins::cpu {
namespace {

constexpr int32_t kKind = 2;

int create(const Xnnpack& library, const ConvPlan& plan, const ConvData<float>& data,
           const ImageRows& rows, int64_t begin, int64_t count, XnnWeightsCache* cache,
           XnnOperator** ret) noexcept {
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  const int64_t weights = plan.in_per_group() * plan.kernel_numel();
  const ReadableBehind<float> kernel(data.weight + begin * weights, count * weights);
  const ReadableBehind<float> bias(data.bias != nullptr ? data.bias + begin : nullptr, count);
  if (kernel.data() == nullptr || (data.bias != nullptr && bias.data() == nullptr)) {
    return ~kXnnSuccess;
  }
  return library.create_convolution2d_nhwc_f32(
      number(rows.padding_top), number(plan.padding_end[2]), number(rows.padding_bottom),
      number(plan.padding[2]), number(plan.kernel[1]), number(plan.kernel[2]),
      number(plan.stride[1]), number(plan.stride[2]), number(plan.dilation[1]),
      number(plan.dilation[2]), number(plan.groups), plan.in_per_group(), count / plan.groups,
      plan.in_channels, plan.out_channels, kernel.data(), bias.data(), data.least, data.most, 0,
      cache, ret);
}

/// Activates what an operator has computed, while it is in the nearest cache.
void activate(const ConvPlan& plan, const ConvData<float>& data, const ImageRows& rows,
              int64_t count, float* output) noexcept {
  const int64_t pixels = rows.count * plan.out[2];
  if (count == plan.out_channels) {
    data.activation(output, pixels * count);
    return;
  }
  for (int64_t i = 0; i < pixels; ++i) {
    data.activation(output + i * plan.out_channels, count);
  }
}

}  // namespace

std::optional<Status> packed_convolution(const ConvPlan& plan,
                                         const ConvData<float>& data) noexcept {
  const Xnnpack* library = fits_xnnpack(plan) ? xnnpack() : nullptr;
  if (library == nullptr) {
    return std::nullopt;
  }
  const size_t weights = plan.out_channels * plan.in_per_group() * plan.kernel_numel();
  DerivedKey key{
      kKind,
      {{data.weight, weights * sizeof(float)}, {data.bias, plan.out_channels * sizeof(float)}},
      {float_to_bits(data.least), float_to_bits(data.most)}};
  add_to_key(plan, &key);
  const auto packed = derive(key, [&]() -> std::shared_ptr<Derived> {
    return std::make_shared<PackedImages>(
        *library, plan,
        [library, plan, data](const ImageRows& rows, int64_t begin, int64_t count,
                              XnnWeightsCache* cache, XnnOperator** ret) {
          return create(*library, plan, data, rows, begin, count, cache, ret);
        });
  });
  if (packed == nullptr) {
    return std::nullopt;
  }
  const ReadableBehind<float> input(data.input, plan.batch * plan.in_pixels() * plan.in_channels);
  if (input.data() == nullptr) {
    return std::nullopt;
  }
  auto& images = static_cast<PackedImages&>(*packed);
  return images.run(
      plan, [&](XnnOperator* op, int64_t image, const ImageRows& rows, int64_t channel) {
        float* output = output_of(plan, image, rows, data.output) + channel;
        const bool done = run_rows(*library, library->reshape_convolution2d_nhwc_f32,
                                   library->setup_convolution2d_nhwc_f32, plan, op, rows,
                                   input_of(plan, image, rows, input.data()), output);
        if (done && data.activation != nullptr) {
          activate(plan, data, rows, images.channels_from(plan, channel), output);
        }
        return done;
      });
}

}  // namespace aoti_plugins::cpu
