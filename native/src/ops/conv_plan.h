#pragma once

#include <cstdint>

#include "slim/export.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// Sizes of a convolution, with every spatial list lifted to three dims (depth, height, width).
struct AOTIP_CORE ConvPlan {
  int64_t spatial_ndim = 0;
  bool batched = true;
  bool transposed = false;
  bool channels_last = false;  ///< the result's layout, as PyTorch would choose it
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;
  int64_t in[3] = {1, 1, 1};
  int64_t out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0};      ///< before the first pixel
  int64_t padding_end[3] = {0, 0, 0};  ///< behind the last one
  int64_t dilation[3] = {1, 1, 1};

  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_numel() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_per_group() const { return in_channels / groups; }
  int64_t out_per_group() const { return out_channels / groups; }
  /// Whether input pixels are the columns of the product as they are: kernel 1, stride 1, no
  /// padding.
  bool is_pointwise() const;
};

/// One spatial argument (stride, padding, …): a list of `count` numbers.
struct ConvList {
  const char* name;
  const int64_t* values;
  int64_t count;
};

/// Checks all arguments, which belong on the input's device of type `device_type`, and works out
/// the sizes; the reason of a failure names the argument. `padding` has one number for each dim, or
/// two where `both_ends` allows it: those of the beginnings, then those of the ends.
AOTIP_CORE Status make_conv_plan(const Tensor& input, const Tensor& weight, const Tensor* bias,
                                 const ConvList& stride, const ConvList& padding,
                                 const ConvList& dilation, const ConvList& output_padding,
                                 bool transposed, int64_t groups, int32_t device_type,
                                 ConvPlan* ret, bool both_ends = false) noexcept;

/// A new tensor for the result, in the layout of the plan. Null, with a reason, when memory runs
/// out.
AOTIP_CORE Tensor* make_conv_output(const ConvPlan& plan, int32_t dtype, Device device) noexcept;

/// Writes the strides of a tensor without gaps: row-major, or channels-last (3 dims or more).
AOTIP_CORE void conv_strides(int64_t ndim, const int64_t* sizes, bool channels_last,
                             int64_t* ret) noexcept;

/// Whether a tensor has the strides of `conv_strides()`; those of dims of size 1 do not matter.
AOTIP_CORE bool has_conv_strides(const Tensor& tensor, bool channels_last) noexcept;

/// Whether the strides say channels-last (4 or 5 dims); undecidable ones count as row-major.
AOTIP_CORE bool is_channels_last(const Tensor& tensor) noexcept;

}  // namespace aoti_plugins
