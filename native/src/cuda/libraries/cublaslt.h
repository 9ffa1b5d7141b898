#pragma once

/// What we use of cuBLASLt, declared here: the library is opened on first use and its headers are
/// not needed to build. Values are those of NVIDIA's documentation (cuBLAS 11.4 to 13).

#include <cuda.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins::cuda::lt {

using Handle = struct Context*;
using MatmulDesc = struct MatmulDescOpaque*;
using MatrixLayout = struct MatrixLayoutOpaque*;
using Preference = struct PreferenceOpaque*;
using Result = int;  // cublasStatus_t

inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 15;

enum ComputeType : int32_t {
  kCompute32F = 68,
  kCompute64F = 70,
  kCompute32I = 72,
  kCompute32FFastTf32 = 77,
};

enum Operation : int32_t { kNone = 0, kTranspose = 1 };

/// Bits: ReLU 2, bias 4, GELU 32.
enum Epilogue : uint32_t { kDefault = 1, kRelu = 2, kBias = 4, kGelu = 32 };

enum MatmulDescAttribute : int32_t {
  kDescTransA = 3,
  kDescTransB = 4,
  kDescEpilogue = 7,
  kDescBiasPointer = 8,
  kDescAScalePointer = 17,
  kDescBScalePointer = 18,
  kDescDScalePointer = 20,
  kDescFastAccumulation = 25,
  kDescBiasDataType = 26,
  kDescAScaleMode = 31,
  kDescBScaleMode = 32,
};

/// What a scale pointer points to: one float32, or (cuBLAS 12.9) one for each row of the result
/// that comes from that operand.
enum ScaleMode : int32_t { kScaleScalar = 0, kScaleOuterVector = 3 };

enum LayoutAttribute : int32_t { kLayoutBatchCount = 5, kLayoutBatchStride = 6 };

enum PreferenceAttribute : int32_t {
  kMaxWorkspaceNbytes = 1,
  kReductionSchemes = 3,
  kMinAlignmentA = 5,
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8,
};

/// How the sums of a product whose k is divided are put together: bits of a mask.
enum ReductionScheme : uint32_t {
  kNoReduction = 0,
  kReductionInComputeType = 2,
};

struct Algorithm {
  uint64_t data[8];
};

struct Heuristic {
  Algorithm algorithm;
  size_t workspace_nbytes;
  Result state;
  float waves;
  int reserved[4];
};

/// The functions of the library, by their names without `cublasLt`.
struct Library {
  Result (*Create)(Handle* ret);
  Result (*MatmulDescCreate)(MatmulDesc* ret, ComputeType compute, cudaDataType scale);
  Result (*MatmulDescDestroy)(MatmulDesc desc);
  Result (*MatmulDescSetAttribute)(MatmulDesc desc, MatmulDescAttribute which, const void* value,
                                   size_t nbytes);
  Result (*MatrixLayoutCreate)(MatrixLayout* ret, cudaDataType type, uint64_t rows, uint64_t cols,
                               int64_t leading);
  Result (*MatrixLayoutDestroy)(MatrixLayout layout);
  Result (*MatrixLayoutSetAttribute)(MatrixLayout layout, LayoutAttribute which, const void* value,
                                     size_t nbytes);
  Result (*MatmulPreferenceCreate)(Preference* ret);
  Result (*MatmulPreferenceDestroy)(Preference preference);
  Result (*MatmulPreferenceSetAttribute)(Preference preference, PreferenceAttribute which,
                                         const void* value, size_t nbytes);
  Result (*MatmulAlgoGetHeuristic)(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b,
                                   MatrixLayout c, MatrixLayout d, Preference preference,
                                   int requested, Heuristic* results, int* ret_count);
  Result (*Matmul)(Handle handle, MatmulDesc desc, const void* alpha, const void* a,
                   MatrixLayout a_layout, const void* b, MatrixLayout b_layout, const void* beta,
                   const void* c, MatrixLayout c_layout, void* d, MatrixLayout d_layout,
                   const Algorithm* algorithm, void* workspace, size_t workspace_nbytes,
                   CUstream stream);
};

/// The library, opened by the first call; null, with a reason that says how to install it, when it
/// is not there.
const Library* open() noexcept;

/// The handle for a GPU, whose context must be current; null, with a reason, when it fails. It
/// lives as long as the process and may be used from all threads.
Handle handle_for(int32_t gpu) noexcept;

/// "CUBLAS_STATUS_NOT_SUPPORTED (15)".
const char* result_text(Result result) noexcept;

}  // namespace aoti_plugins::cuda::lt

/// Calls a function of the library; leaves the current function with a reason when it fails.
#define AOTIP_LT(library, function, ...)                                               \
  do {                                                                                 \
    const ::aoti_plugins::cuda::lt::Result aotip_lt = (library).function(__VA_ARGS__); \
    if (__builtin_expect(aotip_lt != ::aoti_plugins::cuda::lt::kSuccess, 0)) {         \
      return ::aoti_plugins::fail("cublasLt" #function " failed: %s",                  \
                                  ::aoti_plugins::cuda::lt::result_text(aotip_lt));    \
    }                                                                                  \
  } while (0)
