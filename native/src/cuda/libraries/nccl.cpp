#include "cuda/libraries/nccl.h"

#include "cuda/driver/driver.h"
#include "cuda/libraries/library_search.h"
#include "slim/dtype.h"

namespace aoti_plugins::cuda::nccl {
namespace {

Status load(Library* table) {
  void* library = open_library({"NCCL", "AOTI_PLUGINS_NCCL", "libnccl.so.", "2", "nvidia/nccl/lib",
                                driver_has_cuda_13() ? "Install it: pip install nvidia-nccl-cu13"
                                                     : "Install it: pip install nvidia-nccl-cu12"});
  AOTIP_RETURN_IF_NULL(library);
  const char* missing = nullptr;
#define AOTIP_NCCL_FIND(function) \
  find_function(library, "nccl" #function, &table->function, &missing)
  AOTIP_NCCL_FIND(GetVersion);
  AOTIP_NCCL_FIND(GetUniqueId);
  AOTIP_NCCL_FIND(CommInitRank);
  AOTIP_NCCL_FIND(CommAbort);
  AOTIP_NCCL_FIND(CommGetAsyncError);
  AOTIP_NCCL_FIND(GetErrorString);
  AOTIP_NCCL_FIND(GetLastError);
  AOTIP_NCCL_FIND(GroupStart);
  AOTIP_NCCL_FIND(GroupEnd);
  AOTIP_NCCL_FIND(AllReduce);
  AOTIP_NCCL_FIND(AllGather);
  AOTIP_NCCL_FIND(ReduceScatter);
  AOTIP_NCCL_FIND(Broadcast);
  AOTIP_NCCL_FIND(Send);
  AOTIP_NCCL_FIND(Recv);
#undef AOTIP_NCCL_FIND
  AOTIP_CHECK(missing == nullptr, "NCCL lacks %s: it is older than 2.13", missing);
  return Status::kOk;
}

}  // namespace

const Library* open() noexcept {
  static OpenedOnce<Library> library;
  return library.get(load);
}

Status fail_nccl(const Library& library, const char* what, Result result, Comm comm) noexcept {
  const char* more = library.GetLastError(comm);
  return fail("%s: %s (%d)%s%s", what, library.GetErrorString(result), result,
              more != nullptr && more[0] != '\0' ? ": " : "", more != nullptr ? more : "");
}

Status type_of(int32_t dtype, DataType* ret) noexcept {
  constexpr struct {
    int32_t dtype;
    DataType type;
  } kTypes[] = {{kFloat32, kFloat32Type},   {kFloat64, kFloat64Type}, {kFloat16, kFloat16Type},
                {kBFloat16, kBFloat16Type}, {kUInt8, kUint8Type},     {kInt8, kInt8Type},
                {kInt32, kInt32Type},       {kInt64, kInt64Type}};
  for (const auto& entry : kTypes) {
    if (entry.dtype == dtype) {
      *ret = entry.type;
      return Status::kOk;
    }
  }
  return fail("NCCL does not reduce %s", dtype_name(dtype));
}

RedOp op_of(ranks::Reduction reduction) noexcept {
  constexpr RedOp kOps[] = {kSumOp, kAvgOp, kMinOp, kMaxOp, kProdOp};  // in its order
  return kOps[static_cast<size_t>(reduction)];
}

}  // namespace aoti_plugins::cuda::nccl
