// Convolution as products of matrices, tile by tile of output pixels; directly where a group has
// one channel.

#include <algorithm>

#include "cpu/math/gemm.h"
#include "cpu/math/im2col.h"
#include "cpu/math/scratch.h"
#include "cpu/ops/conv.h"
#include "cpu/threads/parallel.h"

namespace aoti_plugins::cpu {
namespace {

constexpr int64_t kTileNumel = int64_t{1} << 17;
// Multiplications in about 20 microseconds on one core; those of one channel per group are not a
// matrix product.
constexpr int64_t kWorkPerThread = int64_t{1} << 18;
constexpr int64_t kDepthwiseWorkPerThread = int64_t{1} << 16;

/// How the output pixels of all images are cut into tiles.
struct Tiles {
  int64_t pixels = 0;
  int64_t per_image = 0;
  int64_t count = 0;

  Tiles(const ConvPlan& plan, int64_t depth) {
    const int64_t all = plan.out_pixels();
    pixels = std::clamp<int64_t>(kTileNumel / std::max<int64_t>(depth, 1) / 16 * 16, 32, 2048);
    pixels = std::max<int64_t>(1, std::min(pixels, all));
    per_image = (all + pixels - 1) / pixels;
    count = plan.batch * plan.groups * per_image;
  }
};

/// Row-major: out [out channels, pixels] = weight [out channels, depth] @ columns [depth, pixels].
template <typename T>
Status run_tile(const ConvPlan& plan, const ConvData<T>& data, int64_t n, int64_t g, int64_t begin,
                int64_t count) noexcept {
  const int64_t depth = plan.in_per_group() * plan.kernel_numel();
  const T* image = data.input + (n * plan.in_channels + g * plan.in_per_group()) * plan.in_pixels();
  Scratch scratch;
  GemmProblem<T> p;
  p.m = plan.out_per_group();
  p.n = count;
  p.k = depth;
  p.a = data.weight + g * p.m * depth;
  p.a_row = depth;
  p.a_col = 1;
  if (plan.is_pointwise()) {
    p.b = image + begin;
    p.b_row = plan.in_pixels();
  } else {
    T* columns = scratch.get<T>(depth * count);
    AOTIP_CHECK(columns != nullptr, "out of memory: the columns of a convolution");
    im2col(plan, image, begin, count, columns);
    p.b = columns;
    p.b_row = count;
  }
  p.b_col = 1;
  p.c = data.output + (n * plan.out_channels + g * p.m) * plan.out_pixels() + begin;
  p.c_row = plan.out_pixels();
  p.c_col = 1;
  if (data.bias != nullptr) {
    p.s = data.bias + g * p.m;
    p.s_row = 1;
    p.beta = 1;
  }
  return gemm(p);
}

/// Channels-last: out [pixels, out channels] = rows [pixels, depth] @ weight^T [depth, out
/// channels].
template <typename T>
Status run_tile_channels_last(const ConvPlan& plan, const ConvData<T>& data, int64_t n, int64_t g,
                              int64_t begin, int64_t count) noexcept {
  const int64_t depth = plan.in_per_group() * plan.kernel_numel();
  const T* image = data.input + n * plan.in_channels * plan.in_pixels() + g * plan.in_per_group();
  Scratch scratch;
  GemmProblem<T> p;
  p.m = count;
  p.n = plan.out_per_group();
  p.k = depth;
  if (plan.is_pointwise()) {
    p.a = image + begin * plan.in_channels;
    p.a_row = plan.in_channels;
  } else {
    T* rows = scratch.get<T>(depth * count);
    AOTIP_CHECK(rows != nullptr, "out of memory: the rows of a convolution");
    im2row(plan, image, begin, count, rows);
    p.a = rows;
    p.a_row = depth;
  }
  p.a_col = 1;
  p.b = data.weight + g * p.n * depth;
  p.b_row = 1;
  p.b_col = depth;
  p.c = data.output + (n * plan.out_pixels() + begin) * plan.out_channels + g * p.n;
  p.c_row = plan.out_channels;
  p.c_col = 1;
  if (data.bias != nullptr) {
    p.s = data.bias + g * p.n;
    p.s_col = 1;
    p.beta = 1;
  }
  return gemm(p);
}

/// One channel in, one or more out, row-major: sums over the kernel without columns.
template <typename T>
void run_depthwise(const ConvPlan& plan, const ConvData<T>& data, int64_t n, int64_t c) noexcept {
  const int64_t in_channel = c / plan.out_per_group();
  const T* image = data.input + (n * plan.in_channels + in_channel) * plan.in_pixels();
  const T* weight = data.weight + c * plan.kernel_numel();
  T* out = data.output + (n * plan.out_channels + c) * plan.out_pixels();
  std::fill(out, out + plan.out_pixels(), data.bias != nullptr ? data.bias[c] : T(0));
  for_each_kernel_position(plan, [&](int64_t index, const int64_t* position) {
    const T factor = weight[index];
    const int64_t offset = position[2] * plan.dilation[2] - plan.padding[2];
    const ValidRange valid = valid_range(plan.out[2], plan.in[2], plan.stride[2], offset);
    for (int64_t row = 0; row < plan.out[0] * plan.out[1]; ++row) {
      const int64_t depth =
          row / plan.out[1] * plan.stride[0] + position[0] * plan.dilation[0] - plan.padding[0];
      const int64_t height =
          row % plan.out[1] * plan.stride[1] + position[1] * plan.dilation[1] - plan.padding[1];
      if (depth < 0 || depth >= plan.in[0] || height < 0 || height >= plan.in[1]) {
        continue;
      }
      const T* line = image + (depth * plan.in[1] + height) * plan.in[2];
      T* to = out + row * plan.out[2];
      if (plan.stride[2] == 1) {
        for (int64_t i = valid.first; i < valid.last; ++i) to[i] += factor * line[i + offset];
      } else {
        for (int64_t i = valid.first; i < valid.last; ++i) {
          to[i] += factor * line[i * plan.stride[2] + offset];
        }
      }
    }
  });
}

/// As above for channels-last: the innermost loop runs over channels. `weight` is [channels,
/// kernel].
template <typename T>
void run_depthwise_channels_last(const ConvPlan& plan, const ConvData<T>& data, const T* weight,
                                 int64_t n, int64_t pixel) noexcept {
  const int64_t channels = plan.out_channels;
  const T* image = data.input + n * plan.in_channels * plan.in_pixels();
  T* out = data.output + (n * plan.out_pixels() + pixel) * channels;
  for (int64_t c = 0; c < channels; ++c) {
    out[c] = data.bias != nullptr ? data.bias[c] : T(0);
  }
  int64_t at[3];
  split_pixel(plan, pixel, at);
  for_each_kernel_position(plan, [&](int64_t index, const int64_t* position) {
    int64_t from[3];
    for (int d = 0; d < 3; ++d) {
      from[d] = at[d] * plan.stride[d] + position[d] * plan.dilation[d] - plan.padding[d];
      if (from[d] < 0 || from[d] >= plan.in[d]) {
        return;
      }
    }
    const int64_t source = (from[0] * plan.in[1] + from[1]) * plan.in[2] + from[2];
    const T* line = image + source * plan.in_channels;
    const T* factors = weight + index * channels;
    for (int64_t c = 0; c < channels; ++c) out[c] += factors[c] * line[c];
  });
}

template <typename T>
Status depthwise(const ConvPlan& plan, const ConvData<T>& data) noexcept {
  const int64_t work = plan.batch * plan.out_channels * plan.out_pixels() * plan.kernel_numel();
  const int64_t threads = threads_for(work, kDepthwiseWorkPerThread);
  if (!plan.channels_last) {
    (void)parallel_shares(threads, plan.batch * plan.out_channels, [&](int64_t i) {
      run_depthwise(plan, data, i / plan.out_channels, i % plan.out_channels);
      return true;
    });
    return Status::kOk;
  }
  // [channels, kernel] to [kernel, channels], so that the inner loop reads neighbours.
  Scratch scratch;
  T* weight = scratch.get<T>(plan.out_channels * plan.kernel_numel());
  AOTIP_CHECK(weight != nullptr, "out of memory: the weights of a convolution");
  for (int64_t c = 0; c < plan.out_channels; ++c) {
    for (int64_t i = 0; i < plan.kernel_numel(); ++i) {
      weight[i * plan.out_channels + c] = data.weight[c * plan.kernel_numel() + i];
    }
  }
  (void)parallel_shares(threads, plan.batch * plan.out_pixels(), [&](int64_t i) {
    run_depthwise_channels_last(plan, data, weight, i / plan.out_pixels(), i % plan.out_pixels());
    return true;
  });
  return Status::kOk;
}

}  // namespace

template <typename T>
Status conv_forward(const ConvPlan& plan, const ConvData<T>& data) noexcept {
  if (plan.batch * plan.out_channels * plan.out_pixels() == 0) {
    return Status::kOk;
  }
  if (plan.in_per_group() == 1 && plan.groups > 1 &&
      (!plan.channels_last || plan.out_per_group() == 1)) {
    return depthwise(plan, data);
  }
  const int64_t depth = plan.in_per_group() * plan.kernel_numel();
  const Tiles tiles(plan, depth);
  const int64_t work = plan.batch * plan.out_pixels() * plan.out_channels * depth;
  const int64_t threads = threads_for(work, kWorkPerThread);
  const bool done = parallel_shares(threads, tiles.count, [&](int64_t i) {
    const int64_t begin = i % tiles.per_image * tiles.pixels;
    const int64_t count = std::min(tiles.pixels, plan.out_pixels() - begin);
    const int64_t g = i / tiles.per_image % plan.groups;
    const int64_t n = i / tiles.per_image / plan.groups;
    const auto run = plan.channels_last ? run_tile_channels_last<T> : run_tile<T>;
    return run(plan, data, n, g, begin, count) == Status::kOk;
  });
  AOTIP_CHECK(done, "out of memory in a convolution");
  return Status::kOk;
}

template Status conv_forward(const ConvPlan& plan, const ConvData<float>& data) noexcept;
template Status conv_forward(const ConvPlan& plan, const ConvData<double>& data) noexcept;

}  // namespace aoti_plugins::cpu
