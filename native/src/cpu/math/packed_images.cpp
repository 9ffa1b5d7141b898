#include "cpu/math/packed_images.h"

#include <algorithm>

#include "cpu/threads/parallel.h"
#include "cpu/threads/thread_team.h"

namespace aoti_plugins::cpu {
namespace {

// Multiplications in about 10 microseconds on one core.
constexpr int64_t kWorkPerThread = int64_t{1} << 18;
// A part begins anew what a larger one goes on with, so there are more parts than threads only
// where each has as much: 160 microseconds on one core.
constexpr int64_t kWorkPerPart = int64_t{1} << 22;
// To read a weight takes as long as so many multiplications.
constexpr int64_t kWeightCost = 4;
// A channel that few others go into reads a number for nearly each multiplication.
constexpr int64_t kFewChannels = 4;
constexpr int64_t kFewChannelsCost = 4;
// A part of the channels has so many weights that to read the input again is cheap beside them.
constexpr int64_t kWeightsPerPart = int64_t{1} << 16;
constexpr int64_t kChannels = 32;
constexpr int64_t kPartsPerThread = 2;

ImageRows rows_from(const ConvPlan& plan, int64_t begin, int64_t count) {
  const int64_t reach = (plan.kernel[1] - 1) * plan.dilation[1] + 1;
  const int64_t first = begin * plan.stride[1] - plan.padding[1];
  const int64_t last = (begin + count - 1) * plan.stride[1] - plan.padding[1] + reach;
  ImageRows rows{begin, count, std::max<int64_t>(first, 0), 0, std::max<int64_t>(-first, 0), 0};
  rows.in_count = std::min(last, plan.in[1]) - rows.in_begin;
  rows.padding_bottom = std::max<int64_t>(last - plan.in[1], 0);
  return rows;
}

int64_t variant_of(const ImageRows& rows) {
  return rows.padding_top << 32 | rows.padding_bottom;
}

}  // namespace

PackedImages::PackedImages(const Xnnpack& library, const ConvPlan& plan, Create create)
    : create_(std::move(create)) {
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

bool PackedImages::can_run(const ConvPlan& plan) noexcept {
  const ImageRows rows = rows_from(plan, 0, plan.out[1]);
  const PackedWeights::Lease op(*parts_[0], variant_of(rows),
                                [&](XnnWeightsCache* cache, XnnOperator** ret) {
                                  return create_(rows, 0, channels_from(plan, 0), cache, ret);
                                });
  return op.get() != nullptr;
}

Status PackedImages::run(const ConvPlan& plan, Run run) noexcept {
  const int64_t weights = plan.out_channels * plan.in_per_group() * plan.kernel_numel();
  const int64_t work = plan.batch * plan.out_pixels() * weights *
                           (plan.in_per_group() < kFewChannels ? kFewChannelsCost : 1) +
                       weights * kWeightCost;
  const int64_t threads = threads_for(work, kWorkPerThread);
  const auto channels = static_cast<int64_t>(parts_.size());
  const int64_t more = threads * kPartsPerThread;  // a number between would keep threads waiting
  const int64_t wanted = threads > 1 && work >= more * kWorkPerPart ? more : threads;
  const int64_t cuts = std::clamp<int64_t>(wanted / (channels * plan.batch), 1, plan.out[1]);
  const int64_t height = (plan.out[1] + cuts - 1) / cuts;
  const bool done = parallel_all(threads, plan.batch * cuts * channels, [&](int64_t i) {
    const int64_t begin = i / channels % cuts * height;
    const int64_t count = std::min(height, plan.out[1] - begin);
    if (count <= 0) {
      return true;
    }
    const int64_t channel = i % channels * step_;
    const ImageRows rows = rows_from(plan, begin, count);
    const PackedWeights::Lease op(
        *parts_[i % channels], variant_of(rows), [&](XnnWeightsCache* cache, XnnOperator** ret) {
          return create_(rows, channel, channels_from(plan, channel), cache, ret);
        });
    return op.get() != nullptr && rows.in_count > 0 &&
           run(op.get(), i / channels / cuts, rows, channel);
  });
  AOTIP_CHECK(done, "XNNPACK: a convolution failed");
  return Status::kOk;
}

bool fits_xnnpack(const ConvPlan& plan) noexcept {
  constexpr int64_t kMost = int64_t{1} << 30;
  for (int d = 0; d < 3; ++d) {
    // More padding than the kernel reaches would make rows from nothing.
    if (plan.stride[d] > kMost || plan.dilation[d] * plan.kernel[d] > kMost ||
        std::max(plan.padding[d], plan.padding_end[d]) > (plan.kernel[d] - 1) * plan.dilation[d] ||
        plan.in[d] > kMost || plan.out[d] < 1 || plan.in[d] < 1) {
      return false;
    }
  }
  return plan.channels_last && plan.spatial_ndim <= 2 && plan.batch > 0 && plan.out_channels > 0 &&
         plan.in_per_group() > 0;
}

void add_to_key(const ConvPlan& plan, DerivedKey* key) noexcept {
  const auto both_ends = [&plan](int d) { return plan.padding[d] << 32 | plan.padding_end[d]; };
  const int64_t numbers[] = {plan.in_channels, plan.out_channels, plan.groups,     plan.kernel[1],
                             plan.kernel[2],   plan.stride[1],    plan.stride[2],  both_ends(1),
                             both_ends(2),     plan.dilation[1],  plan.dilation[2]};
  std::copy(std::begin(numbers), std::end(numbers), key->numbers.begin() + 5);
}

}  // namespace aoti_plugins::cpu
