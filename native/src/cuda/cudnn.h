#pragma once

/// What we use of cuDNN 9, declared here: the library is opened on first use and its headers are
/// not needed to build. Each number says the header of cuDNN 9 that it comes from.

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins::cuda::dnn {

using Handle = struct Context*;
using TensorDesc = struct TensorDescOpaque*;
using FilterDesc = struct FilterDescOpaque*;
using ConvDesc = struct ConvDescOpaque*;
using Result = int;  // cudnnStatus_t

/// cudnn_graph_v9.h: CUDNN_STATUS_SUCCESS, CUDNN_STATUS_NOT_SUPPORTED.
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3000;

/// cudnn_graph_v9.h: cudnnDataType_t.
enum DataType : int32_t { kFloat = 0, kDouble = 1, kHalf = 2, kBFloat = 9 };

/// cudnn_ops_v9.h: cudnnTensorFormat_t.
enum Format : int32_t { kNchw = 0, kNhwc = 1 };

/// cudnn_graph_v9.h: cudnnConvolutionMode_t; what PyTorch calls convolution.
enum Mode : int32_t { kCrossCorrelation = 1 };

/// cudnn_graph_v9.h: cudnnMathType_t. kDefaultMath rounds float32 to TF32, kFmaMath does not.
enum MathType : int32_t { kDefaultMath = 0, kTensorOpMath = 1, kFmaMath = 3 };

/// cudnn_cnn_v9.h: CUDNN_CONVOLUTION_FWD_ALGO_COUNT; there are less for data gradients.
inline constexpr int kMaxAlgorithms = 8;

/// cudnn_cnn_v9.h: cudnnConvolutionFwdAlgoPerf_t, and cudnnConvolutionBwdDataAlgoPerf_t alike.
struct Algorithm {
  int32_t algorithm;
  Result status;
  float milliseconds;
  size_t workspace_nbytes;
  int32_t determinism;
  MathType math;
  int32_t reserved[3];
};

/// The functions of the library, by their names without `cudnn`.
struct Library {
  Result (*Create)(Handle* ret);
  Result (*SetStream)(Handle handle, CUstream stream);
  const char* (*GetErrorString)(Result result);
  Result (*CreateTensorDescriptor)(TensorDesc* ret);
  Result (*DestroyTensorDescriptor)(TensorDesc desc);
  Result (*SetTensorNdDescriptor)(TensorDesc desc, DataType type, int ndim, const int* sizes,
                                  const int* strides);
  Result (*CreateFilterDescriptor)(FilterDesc* ret);
  Result (*DestroyFilterDescriptor)(FilterDesc desc);
  Result (*SetFilterNdDescriptor)(FilterDesc desc, DataType type, Format format, int ndim,
                                  const int* sizes);
  Result (*CreateConvolutionDescriptor)(ConvDesc* ret);
  Result (*DestroyConvolutionDescriptor)(ConvDesc desc);
  Result (*SetConvolutionNdDescriptor)(ConvDesc desc, int spatial_ndim, const int* padding,
                                       const int* stride, const int* dilation, Mode mode,
                                       DataType compute);
  Result (*SetConvolutionGroupCount)(ConvDesc desc, int groups);
  Result (*SetConvolutionMathType)(ConvDesc desc, MathType math);
  Result (*GetConvolutionForwardAlgorithm_v7)(Handle handle, TensorDesc x, FilterDesc w,
                                              ConvDesc conv, TensorDesc y, int requested,
                                              int* ret_count, Algorithm* results);
  Result (*GetConvolutionForwardWorkspaceSize)(Handle handle, TensorDesc x, FilterDesc w,
                                               ConvDesc conv, TensorDesc y, int32_t algorithm,
                                               size_t* ret_nbytes);
  Result (*ConvolutionForward)(Handle handle, const void* alpha, TensorDesc x, const void* x_data,
                               FilterDesc w, const void* w_data, ConvDesc conv, int32_t algorithm,
                               void* workspace, size_t workspace_nbytes, const void* beta,
                               TensorDesc y, void* y_data);
  Result (*GetConvolutionBackwardDataAlgorithm_v7)(Handle handle, FilterDesc w, TensorDesc dy,
                                                   ConvDesc conv, TensorDesc dx, int requested,
                                                   int* ret_count, Algorithm* results);
  Result (*GetConvolutionBackwardDataWorkspaceSize)(Handle handle, FilterDesc w, TensorDesc dy,
                                                    ConvDesc conv, TensorDesc dx, int32_t algorithm,
                                                    size_t* ret_nbytes);
  Result (*ConvolutionBackwardData)(Handle handle, const void* alpha, FilterDesc w,
                                    const void* w_data, TensorDesc dy, const void* dy_data,
                                    ConvDesc conv, int32_t algorithm, void* workspace,
                                    size_t workspace_nbytes, const void* beta, TensorDesc dx,
                                    void* dx_data);
  Result (*AddTensor)(Handle handle, const void* alpha, TensorDesc a, const void* a_data,
                      const void* beta, TensorDesc c, void* c_data);
};

/// The library, opened by the first call; null, with a reason that says how to install it, when it
/// is not there.
const Library* open() noexcept;

/// A handle for the current GPU that nobody else uses until the end of the scope; its work goes to
/// this thread's current stream. Handles are made on demand and live as long as the process.
class HandleScope {
 public:
  explicit HandleScope(int32_t gpu) noexcept;
  ~HandleScope();
  HandleScope(const HandleScope&) = delete;
  HandleScope& operator=(const HandleScope&) = delete;

  /// Null, with a reason, when there is none.
  Handle get() const noexcept { return handle_; }

 private:
  int32_t gpu_;
  Handle handle_ = nullptr;
};

/// "CUDNN_STATUS_NOT_SUPPORTED (3000)".
const char* result_text(const Library& library, Result result) noexcept;

}  // namespace aoti_plugins::cuda::dnn

/// Calls a function of the library; leaves the current function with a reason when it fails.
#define AOTIP_DNN(library, function, ...)                                                      \
  do {                                                                                         \
    const ::aoti_plugins::cuda::dnn::Result aotip_dnn = (library).function(__VA_ARGS__);       \
    if (__builtin_expect(aotip_dnn != ::aoti_plugins::cuda::dnn::kSuccess, 0)) {               \
      return ::aoti_plugins::fail("cudnn" #function " failed: %s",                             \
                                  ::aoti_plugins::cuda::dnn::result_text(library, aotip_dnn)); \
    }                                                                                          \
  } while (0)
