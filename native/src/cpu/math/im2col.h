#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/conv_plan.h"

namespace aoti_plugins::cpu {

/// Output positions of one row that read inside the input: `first` to `last` (exclusive) of `out`
/// positions.
struct ValidRange {
  int64_t first;
  int64_t last;
};

inline ValidRange valid_range(int64_t out, int64_t in, int64_t stride, int64_t offset) {
  // Input position = i * stride + offset, which must be in [0, in).
  const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t last = offset >= in ? 0 : (in - 1 - offset) / stride + 1;
  return {std::min(first, out), std::max(std::min(last, out), std::min(first, out))};
}

/// Splits an output pixel number into depth, height and width.
inline void split_pixel(const ConvPlan& plan, int64_t pixel, int64_t* ret) {
  ret[2] = pixel % plan.out[2];
  ret[1] = pixel / plan.out[2] % plan.out[1];
  ret[0] = pixel / plan.out[2] / plan.out[1];
}

/// Writes one row of the columns matrix, `count` output pixels from `begin`, for one channel and
/// kernel position: what these pixels read there, 0 in the padding.
template <typename T>
void im2col_row(const ConvPlan& plan, const T* channel, const int64_t* position, int64_t begin,
                int64_t count, T* to) noexcept {
  int64_t at[3];
  split_pixel(plan, begin, at);
  const int64_t offset = position[2] * plan.dilation[2] - plan.padding[2];
  const ValidRange valid = valid_range(plan.out[2], plan.in[2], plan.stride[2], offset);
  while (count > 0) {
    const int64_t length = std::min(count, plan.out[2] - at[2]);
    const int64_t depth = at[0] * plan.stride[0] + position[0] * plan.dilation[0] - plan.padding[0];
    const int64_t height =
        at[1] * plan.stride[1] + position[1] * plan.dilation[1] - plan.padding[1];
    int64_t first = length;
    int64_t last = length;
    if (depth >= 0 && depth < plan.in[0] && height >= 0 && height < plan.in[1]) {
      first = std::clamp<int64_t>(valid.first - at[2], 0, length);
      last = std::clamp<int64_t>(valid.last - at[2], first, length);
    }
    const T* line = channel + (depth * plan.in[1] + height) * plan.in[2];
    std::fill(to, to + first, T(0));
    if (first < last) {
      const T* from = line + (at[2] + first) * plan.stride[2] + offset;
      if (plan.stride[2] == 1) {
        std::memcpy(to + first, from, static_cast<size_t>(last - first) * sizeof(T));
      } else {
        for (int64_t i = first; i < last; ++i) {
          to[i] = from[(i - first) * plan.stride[2]];
        }
      }
    }
    std::fill(to + last, to + length, T(0));
    to += length;
    count -= length;
    at[2] = 0;
    if (++at[1] == plan.out[1]) {
      at[1] = 0;
      ++at[0];
    }
  }
}

/// Calls `body(index, position)` for every kernel position, in row-major order.
template <typename Body>
void for_each_kernel_position(const ConvPlan& plan, const Body& body) {
  int64_t index = 0;
  int64_t position[3];
  for (position[0] = 0; position[0] < plan.kernel[0]; ++position[0]) {
    for (position[1] = 0; position[1] < plan.kernel[1]; ++position[1]) {
      for (position[2] = 0; position[2] < plan.kernel[2]; ++position[2]) {
        body(index++, position);
      }
    }
  }
}

/// The columns of a row-major image: [channels * kernel, count], from the group's first channel.
template <typename T>
void im2col(const ConvPlan& plan, const T* image, int64_t begin, int64_t count, T* to) noexcept {
  for (int64_t c = 0; c < plan.in_per_group(); ++c) {
    for_each_kernel_position(plan, [&](int64_t, const int64_t* position) {
      im2col_row(plan, image + c * plan.in_pixels(), position, begin, count, to);
      to += count;
    });
  }
}

/// The columns of a channels-last image, transposed: [count, kernel * channels]. `image` points to
/// the group's first channel of the first pixel; pixels are `plan.in_channels` apart.
template <typename T>
void im2row(const ConvPlan& plan, const T* image, int64_t begin, int64_t count, T* to) noexcept {
  const int64_t channels = plan.in_per_group();
  const size_t nbytes = static_cast<size_t>(channels) * sizeof(T);
  for (int64_t pixel = begin; pixel < begin + count; ++pixel) {
    int64_t at[3];
    split_pixel(plan, pixel, at);
    for_each_kernel_position(plan, [&](int64_t, const int64_t* position) {
      int64_t from[3];
      bool inside = true;
      for (int d = 0; d < 3; ++d) {
        from[d] = at[d] * plan.stride[d] + position[d] * plan.dilation[d] - plan.padding[d];
        inside = inside && from[d] >= 0 && from[d] < plan.in[d];
      }
      if (inside) {
        const int64_t source = (from[0] * plan.in[1] + from[1]) * plan.in[2] + from[2];
        std::memcpy(to, image + source * plan.in_channels, nbytes);
      } else {
        std::memset(to, 0, nbytes);
      }
      to += channels;
    });
  }
}

}  // namespace aoti_plugins::cpu
