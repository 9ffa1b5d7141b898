#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/conv_plan.h"

namespace aoti_plugins::cpu {

/// Whether a convolution of 8-bit numbers, one that XNNPACK takes, is one over pixels of
/// `fold_rows()`.
///
/// A pixel of a picture has three channels. XNNPACK reads the channels of one position of a kernel
/// at a time, and rounds their number up to what an instruction takes. Channels-last, the pixels
/// below one row of the kernel lie in a row: as many channels of one pixel. Such pixels are made
/// first, each input row once; the weight is what it was.
inline bool is_width_folded(const ConvPlan& plan) noexcept {
  constexpr int64_t kFewChannels = 8;
  return plan.groups == 1 && plan.kernel[2] > 1 && plan.dilation[2] == 1 &&
         plan.in_channels < kFewChannels;
}

/// The convolution over these pixels.
inline ConvPlan with_folded_width(const ConvPlan& plan) noexcept {
  ConvPlan folded = plan;
  folded.in_channels = plan.in_channels * plan.kernel[2];
  folded.in[2] = plan.out[2];
  folded.kernel[2] = folded.stride[2] = 1;
  folded.padding[2] = folded.padding_end[2] = 0;
  return folded;
}

/// Copies a few bytes without a call: how many is known at run time.
inline void copy_few(int8_t* to, const int8_t* from, int64_t count) noexcept {
  constexpr int64_t kVector = 16;
  constexpr int64_t kWord = 8;
  if (count >= kVector) {
    for (int64_t i = 0; i + kVector < count; i += kVector) {
      std::memcpy(to + i, from + i, kVector);
    }
    std::memcpy(to + count - kVector, from + count - kVector, kVector);
  } else if (count >= kWord) {
    std::memcpy(to, from, kWord);
    std::memcpy(to + count - kWord, from + count - kWord, kWord);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = from[i];
    }
  }
}

/// Makes the pixels of some rows of an image.
///
/// @param rows [count, in[2], in_channels]
/// @param zero what is outside of the image
/// @param to [count, out[2], kernel[2] * in_channels]
inline void fold_rows(const ConvPlan& plan, const int8_t* rows, int64_t count, int8_t zero,
                      int8_t* to) noexcept {
  const int64_t width = plan.in[2] * plan.in_channels;
  const int64_t folded = plan.kernel[2] * plan.in_channels;
  for (const int8_t* row = rows; row != rows + count * width; row += width) {
    for (int64_t x = 0; x < plan.out[2]; ++x, to += folded) {
      const int64_t first = (x * plan.stride[2] - plan.padding[2]) * plan.in_channels;
      if (first >= 0 && first + folded <= width) {
        copy_few(to, row + first, folded);
        continue;
      }
      for (int64_t i = 0; i < folded; ++i) {
        const bool is_inside = first + i >= 0 && first + i < width;
        to[i] = is_inside ? row[first + i] : zero;
      }
    }
  }
}

}  // namespace aoti_plugins::cpu
