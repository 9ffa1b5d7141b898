#pragma once

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cpu {

/// Sizes of a convolution, with every spatial list lifted to three dims (depth, height, width).
struct ConvPlan {
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
  int64_t padding[3] = {0, 0, 0};
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

/// Checks all arguments and works out the sizes; the reason of a failure names the argument.
Status make_conv_plan(const Tensor& input, const Tensor& weight, const Tensor* bias,
                      const ConvList& stride, const ConvList& padding, const ConvList& dilation,
                      const ConvList& output_padding, bool transposed, int64_t groups,
                      ConvPlan* ret) noexcept;

/// A new tensor for the result, in the layout of the plan. Null, with a reason, when memory runs
/// out.
Tensor* make_conv_output(const ConvPlan& plan, int32_t dtype) noexcept;

/// Whether the strides say channels-last (4 or 5 dims); undecidable ones count as row-major.
bool is_channels_last(const Tensor& tensor) noexcept;

}  // namespace aoti_plugins::cpu
