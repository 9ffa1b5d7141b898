#pragma once

#include <cstddef>
#include <cstdint>

namespace aoti_plugins::cpu {

/// What XNNPACK returns where it did what it was asked.
constexpr int kXnnSuccess = 0;

/// XNNPACK may read this many bytes behind an array.
constexpr size_t kXnnExtraNbytes = 16;

/// The kernel of a fully connected operator is [inputs, outputs] instead of [outputs, inputs].
constexpr uint32_t kXnnTransposedWeights = 0x1;

/// How a row of 8-bit numbers stands for floats: (number - zero_point) * scale.
struct XnnQuantization {
  int32_t zero_point;
  float scale;
};

/// What XNNPACK tells of the weights that it wants to pack.
struct XnnWeightsKey {
  uint32_t seed;
  const void* kernel;
  const void* bias;
  uint32_t fingerprint;
};

/// Who keeps packed weights: XNNPACK's `xnn_weights_cache_provider`.
struct XnnWeightsCache {
  void* context;
  size_t (*look_up)(void* context, const XnnWeightsKey* key);
  void* (*reserve_space)(void* context, size_t nbytes);
  size_t (*look_up_or_insert)(void* context, const XnnWeightsKey* key, void* data, size_t nbytes);
  bool (*is_finalized)(void* context);
  void* (*offset_to_addr)(void* context, size_t offset);
  int (*delete_cache)(void* context);
};

struct XnnOperator;
/// A pool of threads; ours are told apart by the parts that they take, so there is never one.
struct XnnThreads;

/// The functions of XNNPACK that are used here, with the signatures that its `xnnpack.h` gives
/// them.
struct Xnnpack {
  int (*initialize)(const void* allocator);
  int (*delete_operator)(XnnOperator* op);
  int (*run_operator)(XnnOperator* op, XnnThreads* threads);

  int (*create_fully_connected_nc_f32)(size_t inputs, size_t outputs, size_t input_stride,
                                       size_t output_stride, const float* kernel, const float* bias,
                                       float least, float most, uint32_t flags,
                                       XnnWeightsCache* cache, XnnOperator** ret);
  int (*reshape_fully_connected_nc_f32)(XnnOperator* op, size_t rows, XnnThreads* threads);
  int (*setup_fully_connected_nc_f32)(XnnOperator* op, const float* input, float* output);

  int (*create_convolution2d_nhwc_f32)(
      uint32_t padding_top, uint32_t padding_right, uint32_t padding_bottom, uint32_t padding_left,
      uint32_t kernel_height, uint32_t kernel_width, uint32_t stride_height, uint32_t stride_width,
      uint32_t dilation_height, uint32_t dilation_width, uint32_t groups, size_t group_inputs,
      size_t group_outputs, size_t input_stride, size_t output_stride, const float* kernel,
      const float* bias, float least, float most, uint32_t flags, XnnWeightsCache* cache,
      XnnOperator** ret);
  int (*reshape_convolution2d_nhwc_f32)(XnnOperator* op, size_t batch, size_t height, size_t width,
                                        size_t* workspace_nbytes, size_t* out_height,
                                        size_t* out_width, XnnThreads* threads);
  int (*setup_convolution2d_nhwc_f32)(XnnOperator* op, void* workspace, const float* input,
                                      float* output);

  int (*create_convolution2d_nhwc_qs8_qc8w)(
      uint32_t padding_top, uint32_t padding_right, uint32_t padding_bottom, uint32_t padding_left,
      uint32_t kernel_height, uint32_t kernel_width, uint32_t stride_height, uint32_t stride_width,
      uint32_t dilation_height, uint32_t dilation_width, uint32_t groups, size_t group_inputs,
      size_t group_outputs, size_t input_stride, size_t output_stride, int8_t input_zero,
      float input_scale, const float* scales, const int8_t* kernel, const int32_t* bias,
      int8_t output_zero, float output_scale, int8_t least, int8_t most, uint32_t flags,
      XnnWeightsCache* cache, XnnOperator** ret);
  int (*reshape_convolution2d_nhwc_qs8_qc8w)(XnnOperator* op, size_t batch, size_t height,
                                             size_t width, size_t* workspace_nbytes,
                                             size_t* out_height, size_t* out_width,
                                             XnnThreads* threads);
  int (*setup_convolution2d_nhwc_qs8_qc8w)(XnnOperator* op, void* workspace, const int8_t* input,
                                           int8_t* output);

  int (*create_fully_connected_nc_qd8_f32_qc8w)(size_t inputs, size_t outputs, size_t input_stride,
                                                size_t output_stride, const float* scales,
                                                const int8_t* kernel, const float* bias,
                                                float least, float most, uint32_t flags,
                                                XnnWeightsCache* cache, XnnOperator** ret);
  int (*reshape_fully_connected_nc_qd8_f32_qc8w)(XnnOperator* op, size_t rows,
                                                 size_t* workspace_nbytes, XnnThreads* threads);
  int (*setup_fully_connected_nc_qd8_f32_qc8w)(XnnOperator* op, const int8_t* input, float* output,
                                               void* workspace, const XnnQuantization* rows);

  int (*create_fully_connected_nc_qd8_f32_qc4w)(size_t inputs, size_t outputs, size_t input_stride,
                                                size_t output_stride, uint8_t kernel_zero,
                                                const float* scales, const void* kernel,
                                                const float* bias, float least, float most,
                                                uint32_t flags, XnnWeightsCache* cache,
                                                XnnOperator** ret);
  int (*reshape_fully_connected_nc_qd8_f32_qc4w)(XnnOperator* op, size_t rows,
                                                 size_t* workspace_nbytes, XnnThreads* threads);
  int (*setup_fully_connected_nc_qd8_f32_qc4w)(XnnOperator* op, const int8_t* input, float* output,
                                               void* workspace, const XnnQuantization* rows);

  int (*create_fully_connected_nc_qd8_f32_qb4w_f16_scales)(
      size_t inputs, size_t outputs, size_t input_stride, size_t output_stride, size_t block,
      uint8_t kernel_zero, const uint16_t* scales, const void* kernel, const float* bias,
      float least, float most, uint32_t flags, XnnWeightsCache* cache, XnnOperator** ret);
  int (*reshape_fully_connected_nc_qd8_f32_qb4w)(XnnOperator* op, size_t rows,
                                                 size_t* workspace_nbytes, XnnThreads* threads);
  int (*setup_fully_connected_nc_qd8_f32_qb4w)(XnnOperator* op, const int8_t* input, float* output,
                                               void* workspace, const XnnQuantization* rows);

  // The same of rows without a sign, for processors that multiply these with numbers that have one.
  decltype(create_fully_connected_nc_qd8_f32_qc8w) create_fully_connected_nc_qdu8_f32_qc8w;
  decltype(reshape_fully_connected_nc_qd8_f32_qc8w) reshape_fully_connected_nc_qdu8_f32_qc8w;
  decltype(setup_fully_connected_nc_qd8_f32_qc8w) setup_fully_connected_nc_qdu8_f32_qc8w;
  decltype(create_fully_connected_nc_qd8_f32_qc4w) create_fully_connected_nc_qdu8_f32_qc4w;
  decltype(reshape_fully_connected_nc_qd8_f32_qc4w) reshape_fully_connected_nc_qdu8_f32_qc4w;
  decltype(setup_fully_connected_nc_qd8_f32_qc4w) setup_fully_connected_nc_qdu8_f32_qc4w;
  decltype(create_fully_connected_nc_qd8_f32_qb4w_f16_scales)
      create_fully_connected_nc_qdu8_f32_qb4w_f16_scales;
  decltype(reshape_fully_connected_nc_qd8_f32_qb4w) reshape_fully_connected_nc_qdu8_f32_qb4w;
  decltype(setup_fully_connected_nc_qd8_f32_qb4w) setup_fully_connected_nc_qdu8_f32_qb4w;
};

/// XNNPACK in the library of executorch's wheel, opened by the first call; null where it is not
/// there, or AOTI_PLUGINS_XNNPACK is "off", which is logged once. The variable may also name the
/// library's file.
const Xnnpack* xnnpack() noexcept;

/// The same in words, with the path or the reason.
const char* product_kernels() noexcept;

}  // namespace aoti_plugins::cpu
