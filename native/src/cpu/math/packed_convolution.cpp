#include "cpu/math/packed_convolution.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "cpu/libraries/xnnpack.h"
#include "cpu/math/packed_weights.h"
#include "cpu/math/readable_behind.h"
#include "cpu/math/scratch.h"
#include "cpu/memory/constant_memory.h"
#include "cpu/threads/parallel.h"
#include "cpu/threads/thread_team.h"
#include "slim/half.h"

namespace aoti_plugins::cpu {
namespace {

constexpr int32_t kKind = 2;
// Multiplications in about 20 microseconds on one core.
constexpr int64_t kWorkPerThread = int64_t{1} << 19;
// A part of the channels has so many weights that to read the input again is cheap beside them.
constexpr int64_t kWeightsPerPart = int64_t{1} << 16;
constexpr int64_t kChannels = 32;
constexpr int64_t kPartsPerThread = 2;

/// Rows of the output of one image, and what they are made from.
struct Rows {
  int64_t begin;
  int64_t count;
  int64_t in_begin;
  int64_t in_count;
  int64_t padding_top;
  int64_t padding_bottom;
};

Rows rows_from(const ConvPlan& plan, int64_t begin, int64_t count) {
  const int64_t reach = (plan.kernel[1] - 1) * plan.dilation[1] + 1;
  const int64_t first = begin * plan.stride[1] - plan.padding[1];
  const int64_t last = (begin + count - 1) * plan.stride[1] - plan.padding[1] + reach;
  Rows rows{begin, count, std::max<int64_t>(first, 0), 0, std::max<int64_t>(-first, 0), 0};
  rows.in_count = std::min(last, plan.in[1]) - rows.in_begin;
  rows.padding_bottom = std::max<int64_t>(last - plan.in[1], 0);
  return rows;
}

/// All channels, in parts where they have many weights.
class PackedConvolution final : public Derived {
 public:
  PackedConvolution(const Xnnpack& library, const ConvPlan& plan, const ConvData<float>& data)
      : library_(library),
        kernel_(data.weight),
        bias_(data.bias),
        least_(data.least),
        most_(data.most) {
    const int64_t weights = plan.out_channels * plan.in_per_group() * plan.kernel_numel();
    const int64_t most = plan.groups == 1 ? std::max<int64_t>(1, weights / kWeightsPerPart) : 1;
    const int64_t count = std::min<int64_t>(kPartsPerThread * team_limit(), most);
    step_ = (plan.out_channels + count - 1) / count;
    if (count > 1) {
      step_ = (step_ + kChannels - 1) / kChannels * kChannels;
    }
    for (int64_t begin = 0; begin < plan.out_channels; begin += step_) {
      parts_.push_back(std::make_unique<PackedWeights>(library));
    }
  }

  Status run(const ConvPlan& plan, const float* input, float* output) {
    const int64_t work = plan.batch * plan.out_pixels() * plan.out_channels * plan.in_per_group() *
                         plan.kernel_numel();
    const int64_t threads = threads_for(work, kWorkPerThread);
    const auto channels = static_cast<int64_t>(parts_.size());
    const int64_t wanted = threads > 1 ? threads * kPartsPerThread : 1;
    const int64_t cuts = std::clamp<int64_t>(wanted / (channels * plan.batch), 1, plan.out[1]);
    const int64_t height = (plan.out[1] + cuts - 1) / cuts;
    std::atomic<bool> failed{false};
    const auto run_one = [&](int64_t i) {
      const int64_t image = i / channels / cuts;
      const int64_t begin = i / channels % cuts * height;
      const int64_t count = std::min(height, plan.out[1] - begin);
      if (count > 0 && !run_part(plan, i % channels, rows_from(plan, begin, count),
                                 input + image * plan.in_pixels() * plan.in_channels,
                                 output + image * plan.out_pixels() * plan.out_channels)) {
        failed.store(true, std::memory_order_relaxed);
      }
    };
    const int64_t count = plan.batch * cuts * channels;
    if (threads > 1) {
      parallel_for(count, run_one);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        run_one(i);
      }
    }
    AOTIP_CHECK(!failed.load(std::memory_order_relaxed), "XNNPACK: a convolution failed");
    return Status::kOk;
  }

 private:
  bool run_part(const ConvPlan& plan, int64_t part, const Rows& rows, const float* input,
                float* output) noexcept {
    const int64_t begin = part * step_;
    const int64_t variant = rows.padding_top << 32 | rows.padding_bottom;
    const PackedWeights::Lease op(
        *parts_[part], variant, [&](XnnWeightsCache* cache, XnnOperator** ret) {
          return create(plan, rows, begin, std::min(step_, plan.out_channels - begin), cache, ret);
        });
    size_t workspace_nbytes = 0;
    size_t height = 0;
    size_t width = 0;
    if (op.get() == nullptr || rows.in_count <= 0 ||
        library_.reshape_convolution2d_nhwc_f32(op.get(), 1, rows.in_count, plan.in[2],
                                                &workspace_nbytes, &height, &width,
                                                nullptr) != kXnnSuccess ||
        height != static_cast<size_t>(rows.count) || width != static_cast<size_t>(plan.out[2])) {
      return false;
    }
    Scratch workspace;
    void* memory = workspace_nbytes > 0 ? workspace.get<char>(workspace_nbytes) : nullptr;
    return (memory != nullptr || workspace_nbytes == 0) &&
           library_.setup_convolution2d_nhwc_f32(
               op.get(), memory, input + rows.in_begin * plan.in[2] * plan.in_channels,
               output + rows.begin * plan.out[2] * plan.out_channels + begin) == kXnnSuccess &&
           library_.run_operator(op.get(), nullptr) == kXnnSuccess;
  }

  int create(const ConvPlan& plan, const Rows& rows, int64_t begin, int64_t count,
             XnnWeightsCache* cache, XnnOperator** ret) noexcept {
    const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
    const int64_t weights = plan.in_per_group() * plan.kernel_numel();
    const ReadableBehind<float> kernel(kernel_ + begin * weights, count * weights);
    const ReadableBehind<float> bias(bias_ != nullptr ? bias_ + begin : nullptr, count);
    if (kernel.data() == nullptr || (bias_ != nullptr && bias.data() == nullptr)) {
      return ~kXnnSuccess;
    }
    return library_.create_convolution2d_nhwc_f32(
        number(rows.padding_top), number(plan.padding[2]), number(rows.padding_bottom),
        number(plan.padding[2]), number(plan.kernel[1]), number(plan.kernel[2]),
        number(plan.stride[1]), number(plan.stride[2]), number(plan.dilation[1]),
        number(plan.dilation[2]), number(plan.groups), plan.in_per_group(), count / plan.groups,
        plan.in_channels, plan.out_channels, kernel.data(), bias.data(), least_, most_, 0, cache,
        ret);
  }

  const Xnnpack& library_;
  const float* kernel_;
  const float* bias_;
  float least_;
  float most_;
  int64_t step_;
  std::vector<std::unique_ptr<PackedWeights>> parts_;
};

/// The sizes that operators are made for; XNNPACK takes them as 32-bit numbers.
DerivedKey key_of(const ConvPlan& plan, const ConvData<float>& data) {
  return {kKind,
          {data.weight, data.bias, nullptr},
          {plan.in_channels, plan.out_channels, plan.groups, plan.kernel[1], plan.kernel[2],
           plan.stride[1], plan.stride[2], plan.padding[1], plan.padding[2], plan.dilation[1],
           plan.dilation[2], static_cast<int64_t>(float_to_bits(data.least)),
           static_cast<int64_t>(float_to_bits(data.most))}};
}

bool fits(const ConvPlan& plan, const ConvData<float>& data) {
  constexpr int64_t kMost = int64_t{1} << 30;
  for (int d = 0; d < 3; ++d) {
    // More padding than the kernel reaches would make rows from nothing.
    if (plan.stride[d] > kMost || plan.dilation[d] * plan.kernel[d] > kMost ||
        plan.padding[d] > (plan.kernel[d] - 1) * plan.dilation[d] || plan.in[d] > kMost ||
        plan.out[d] < 1 || plan.in[d] < 1) {
      return false;
    }
  }
  const int64_t weights = plan.out_channels * plan.in_per_group() * plan.kernel_numel();
  return plan.channels_last && plan.spatial_ndim <= 2 && plan.batch > 0 && weights > 0 &&
         ConstantMemory::contains(data.weight, weights * sizeof(float)) &&
         (data.bias == nullptr ||
          ConstantMemory::contains(data.bias, plan.out_channels * sizeof(float)));
}

}  // namespace

std::optional<Status> packed_convolution(const ConvPlan& plan,
                                         const ConvData<float>& data) noexcept {
  const Xnnpack* library = fits(plan, data) ? xnnpack() : nullptr;
  if (library == nullptr) {
    return std::nullopt;
  }
  const std::shared_ptr<Derived> packed =
      derive(key_of(plan, data), [&]() -> std::shared_ptr<Derived> {
        return std::make_shared<PackedConvolution>(*library, plan, data);
      });
  const ReadableBehind<float> input(data.input, plan.batch * plan.in_pixels() * plan.in_channels);
  if (packed == nullptr || input.data() == nullptr) {
    return std::nullopt;
  }
  return static_cast<PackedConvolution&>(*packed).run(plan, input.data(), data.output);
}

}  // namespace aoti_plugins::cpu
