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
using Opaque = void*;  // cudnnBackendDescriptor_t
using Result = int;    // cudnnStatus_t

/// cudnn_graph_v9.h: CUDNN_STATUS_SUCCESS, CUDNN_STATUS_NOT_SUPPORTED.
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3000;

/// cudnn_graph_v9.h: cudnnDataType_t.
enum DataType : int32_t { kFloat = 0, kDouble = 1, kHalf = 2, kBFloat = 9 };

/// cudnn_graph_v9.h: cudnnConvolutionMode_t; what PyTorch calls convolution.
enum Mode : int32_t { kCrossCorrelation = 1 };

/// cudnn_graph_v9.h: cudnnBackendHeurMode_t.
enum HeuristicMode : int32_t { kFallback = 2, kHeuristicA = 3 };

/// cudnn_graph_v9.h: cudnnBackendNumericalNote_t.
enum NumericalNote : int32_t { kTensorCore = 0, kDownConvertsInputs = 1 };

/// cudnn_graph_v9.h: cudnnBackendDescriptorType_t.
enum DescriptorKind : int32_t {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardData = 12,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
};

/// cudnn_graph_v9.h: cudnnBackendAttributeType_t.
enum AttributeType : int32_t {
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeInt64 = 3,
  kTypeFloat = 4,
  kTypeDouble = 5,
  kTypePointer = 6,
  kTypeConvolutionMode = 7,
  kTypeHeuristicMode = 8,
  kTypeNumericalNote = 11,
  kTypeDescriptor = 15,
};

/// cudnn_graph_v9.h: cudnnBackendAttributeName_t.
enum Attribute : int32_t {
  kConvComputeType = 100,
  kConvMode = 101,
  kConvDilations = 102,
  kConvStrides = 103,
  kConvPostPaddings = 104,
  kConvPrePaddings = 105,
  kConvSpatialDims = 106,
  kHeuristicModeUsed = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspaceNbytes = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConv = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardDataAlpha = 706,
  kBackwardDataBeta = 707,
  kBackwardDataConv = 708,
  kBackwardDataW = 709,
  kBackwardDataDx = 710,
  kBackwardDataDy = 711,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNotes = 1303,
};

/// cudnn_graph_v9.h: CUDNN_NUMERICAL_NOTE_TYPE_COUNT.
inline constexpr int64_t kMaxNotes = 10;

/// The functions of the library, by their names without `cudnn`. The graph API computes; of the
/// older one, what adds a bias.
struct Library {
  Result (*Create)(Handle* ret);
  Result (*SetStream)(Handle handle, CUstream stream);
  const char* (*GetErrorString)(Result result);
  Result (*BackendCreateDescriptor)(DescriptorKind kind, Opaque* ret);
  Result (*BackendDestroyDescriptor)(Opaque desc);
  Result (*BackendSetAttribute)(Opaque desc, Attribute name, AttributeType type, int64_t count,
                                const void* values);
  Result (*BackendGetAttribute)(Opaque desc, Attribute name, AttributeType type, int64_t room,
                                int64_t* ret_count, void* values);
  Result (*BackendFinalize)(Opaque desc);
  Result (*BackendExecute)(Handle handle, Opaque plan, Opaque variant_pack);
  Result (*CreateTensorDescriptor)(TensorDesc* ret);
  Result (*DestroyTensorDescriptor)(TensorDesc desc);
  Result (*SetTensorNdDescriptor)(TensorDesc desc, DataType type, int ndim, const int* sizes,
                                  const int* strides);
  Result (*AddTensor)(Handle handle, const void* alpha, TensorDesc a, const void* a_data,
                      const void* beta, TensorDesc c, void* c_data);
};

/// The library, opened by the first call; null, with a reason that says how to install it, when it
/// is not there.
const Library* open() noexcept;

/// A descriptor of the graph API, destroyed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  /// Makes an empty one.
  Status create(const Library& library, DescriptorKind kind) noexcept;

  /// Each sets an attribute, before `finalize()`.
  Status set(Attribute name, AttributeType type, const void* values, int64_t count = 1) noexcept;
  Status set(Attribute name, const int64_t* values, int64_t count) noexcept;
  Status set(Attribute name, const Descriptor& value) noexcept;

  /// Gets up to `room` values of an attribute; `ret_count` says how many there are.
  Status get(Attribute name, AttributeType type, int64_t room, int64_t* ret_count,
             void* values) const noexcept;

  /// Checks it, and makes it fit for use.
  Status finalize() noexcept;

  void reset() noexcept;

  Opaque opaque() const noexcept { return opaque_; }
  explicit operator bool() const noexcept { return opaque_ != nullptr; }

 private:
  const Library* library_ = nullptr;
  Opaque opaque_ = nullptr;
};

/// A handle for the current GPU that nobody else uses until the end of the scope; its work goes to
/// this thread's current stream. Handles are made on demand, but not while a graph is captured, and
/// live as long as the process.
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
