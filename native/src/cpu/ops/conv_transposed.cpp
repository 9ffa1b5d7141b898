// Transposed convolution: one product per image and group, its columns added up where they fall.

#include <algorithm>

#include "cpu/math/gemm.h"
#include "cpu/math/im2col.h"
#include "cpu/math/scratch.h"
#include "cpu/ops/conv.h"
#include "cpu/threads/parallel.h"

namespace aoti_plugins::cpu {
namespace {

// Multiplications in about 20 microseconds on one core.
constexpr int64_t kWorkPerThread = int64_t{1} << 18;

/// Adds one row of columns (one output channel and kernel position, all input pixels) to the output
/// channel.
template <typename T>
void add_row(const ConvPlan& plan, const T* row, const int64_t* position, T* channel) noexcept {
  const int64_t offset = position[2] * plan.dilation[2] - plan.padding[2];
  const ValidRange valid = valid_range(plan.in[2], plan.out[2], plan.stride[2], offset);
  for (int64_t line = 0; line < plan.in[0] * plan.in[1]; ++line) {
    const int64_t depth =
        line / plan.in[1] * plan.stride[0] + position[0] * plan.dilation[0] - plan.padding[0];
    const int64_t height =
        line % plan.in[1] * plan.stride[1] + position[1] * plan.dilation[1] - plan.padding[1];
    if (depth < 0 || depth >= plan.out[0] || height < 0 || height >= plan.out[1]) {
      continue;
    }
    T* to = channel + (depth * plan.out[1] + height) * plan.out[2];
    const T* from = row + line * plan.in[2];
    for (int64_t i = valid.first; i < valid.last; ++i) {
      to[i * plan.stride[2] + offset] += from[i];
    }
  }
}

template <typename T>
Status run_group(const ConvPlan& plan, const ConvData<T>& data, int64_t n, int64_t g) noexcept {
  const int64_t channels = plan.out_per_group();
  const int64_t rows = channels * plan.kernel_numel();
  Scratch scratch;
  GemmProblem<T> p;
  p.m = rows;
  p.n = plan.in_pixels();
  p.k = plan.in_per_group();
  p.a = data.weight + g * p.k * rows;  // weight [in, out / groups, *kernel], read as its transpose
  p.a_row = 1;
  p.a_col = rows;
  p.b = data.input + (n * plan.in_channels + g * p.k) * plan.in_pixels();
  p.b_row = plan.in_pixels();
  p.b_col = 1;
  T* columns = scratch.get<T>(rows * p.n);
  AOTIP_CHECK(columns != nullptr, "out of memory: the columns of a convolution");
  p.c = columns;
  p.c_row = p.n;
  p.c_col = 1;
  AOTIP_RETURN_IF_FAILED(gemm(p));
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t channel = g * channels + c;
    T* out = data.output + (n * plan.out_channels + channel) * plan.out_pixels();
    std::fill(out, out + plan.out_pixels(), data.bias != nullptr ? data.bias[channel] : T(0));
    for_each_kernel_position(plan, [&](int64_t index, const int64_t* position) {
      add_row(plan, columns + (c * plan.kernel_numel() + index) * p.n, position, out);
    });
  }
  return Status::kOk;
}

}  // namespace

template <typename T>
Status conv_transposed(const ConvPlan& plan, const ConvData<T>& data) noexcept {
  if (plan.batch * plan.out_channels * plan.out_pixels() == 0) {
    return Status::kOk;
  }
  const int64_t count = plan.batch * plan.groups;
  const int64_t work =
      plan.batch * plan.in_channels * plan.in_pixels() * plan.out_per_group() * plan.kernel_numel();
  const bool done = parallel_shares(threads_for(work, kWorkPerThread), count, [&](int64_t i) {
    return run_group(plan, data, i / plan.groups, i % plan.groups) == Status::kOk;
  });
  AOTIP_CHECK(done, "out of memory in a convolution");
  return Status::kOk;
}

template Status conv_transposed(const ConvPlan& plan, const ConvData<float>& data) noexcept;
template Status conv_transposed(const ConvPlan& plan, const ConvData<double>& data) noexcept;

}  // namespace aoti_plugins::cpu
