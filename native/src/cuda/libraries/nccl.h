#pragma once

/// What we use of NCCL, declared here: the library is opened on first use and its header is not
/// needed to build. Names and values are those of NVIDIA's documentation (NCCL 2.10 to 2.32).

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "ranks/collectives.h"

namespace aoti_plugins::cuda::nccl {

using Comm = struct CommOpaque*;
using Result = int;  // ncclResult_t

inline constexpr Result kSuccess = 0;
inline constexpr Result kInProgress = 7;

/// Names ranks that are about to make a communicator; passed by value.
struct UniqueId {
  char internal[128];
};

enum DataType : int32_t {
  kInt8Type = 0,
  kUint8Type = 1,
  kInt32Type = 2,
  kInt64Type = 4,
  kFloat16Type = 6,
  kFloat32Type = 7,
  kFloat64Type = 8,
  kBFloat16Type = 9,
};

enum RedOp : int32_t { kSumOp = 0, kProdOp = 1, kMaxOp = 2, kMinOp = 3, kAvgOp = 4 };

/// The functions of the library, by their names without `nccl`.
struct Library {
  Result (*GetVersion)(int* version);
  Result (*GetUniqueId)(UniqueId* id);
  Result (*CommInitRank)(Comm* ret, int count, UniqueId id, int rank);
  Result (*CommAbort)(Comm comm);
  Result (*CommGetAsyncError)(Comm comm, Result* ret);
  const char* (*GetErrorString)(Result result);
  const char* (*GetLastError)(Comm comm);
  Result (*GroupStart)();
  Result (*GroupEnd)();
  Result (*AllReduce)(const void* in, void* out, size_t count, DataType type, RedOp op, Comm comm,
                      CUstream stream);
  Result (*AllGather)(const void* in, void* out, size_t in_count, DataType type, Comm comm,
                      CUstream stream);
  Result (*ReduceScatter)(const void* in, void* out, size_t out_count, DataType type, RedOp op,
                          Comm comm, CUstream stream);
  Result (*Broadcast)(const void* in, void* out, size_t count, DataType type, int root, Comm comm,
                      CUstream stream);
  Result (*Send)(const void* in, size_t count, DataType type, int peer, Comm comm, CUstream stream);
  Result (*Recv)(void* out, size_t count, DataType type, int peer, Comm comm, CUstream stream);
};

/// The library, opened by the first call; null, with a reason that says how to install it, when it
/// is not there.
const Library* open() noexcept;

/// Records `<what>: <NCCL's reason>` as the reason of a failure; `comm` may be null.
Status fail_nccl(const Library& library, const char* what, Result result, Comm comm) noexcept;

/// The type of elements that are reduced; fails for others.
Status type_of(int32_t dtype, DataType* ret) noexcept;

RedOp op_of(ranks::Reduction reduction) noexcept;

}  // namespace aoti_plugins::cuda::nccl

/// Calls a function of NCCL by its name; leaves the current function with a reason when it fails.
#define AOTIP_NCCL(library, comm, function, ...)                                               \
  do {                                                                                         \
    const int aotip_nccl_code = (library).function(__VA_ARGS__);                               \
    if (aotip_nccl_code != ::aoti_plugins::cuda::nccl::kSuccess) {                             \
      return ::aoti_plugins::cuda::nccl::fail_nccl(library, "nccl" #function, aotip_nccl_code, \
                                                   comm);                                      \
    }                                                                                          \
  } while (0)
