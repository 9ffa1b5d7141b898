// Collectives on CUDA, in the order of this thread's stream: by kernels of ours where GPUs reach
// each other's memory and there are some, else by NCCL.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/stream.h"
#include "cuda/libraries/nccl.h"
#include "cuda/ops/all_reduce.h"
#include "cuda/ops/linear_all_reduce.h"
#include "cuda/ops/operators.h"
#include "cuda/ops/peer_collectives.h"
#include "cuda/ranks/communicators.h"
#include "ops/collectives.h"

namespace aoti_plugins::cuda {
namespace {

/// A group's communicator and where its work goes.
struct Call {
  const nccl::Library* library = nullptr;
  nccl::Comm comm = nullptr;
  CUstream stream = nullptr;

  Status begin(const ranks::Group& group, const Tensor& x) {
    AOTIP_RETURN_IF_FAILED(communicator_of(group, x.device().index, &comm));
    library = nccl::open();
    stream = current_stream().handle;
    return Status::kOk;
  }
};

const uint8_t* at(const Tensor& t, size_t offset) {
  return static_cast<const uint8_t*>(t.data()) + offset;
}

struct Collectives {
  static constexpr int32_t kType = kCuda;
  using Scope = Operators::Scope;

  static const Tensor* dense(const Tensor& x, OwnedTensor* owner) {
    if (x.is_contiguous()) {
      return &x;
    }
    *owner = row_major_copy(x);
    return owner->get();
  }

  static Status copy(Tensor& out, const Tensor& in) { return cuda_device().copy(out, in); }

  static Status all_reduce(const ranks::Group& group, ranks::Reduction reduction, const Tensor& x,
                           Tensor& out) {
    return cuda::all_reduce(group, reduction, x, {}, nullptr, out);
  }

  static Status all_gather(const ranks::Group& group, const Tensor& x, Tensor& out) {
    bool is_done = false;
    AOTIP_RETURN_IF_FAILED(peer_all_gather(group, x, out, &is_done));
    if (is_done) {
      return Status::kOk;
    }
    Call call;
    AOTIP_RETURN_IF_FAILED(call.begin(group, x));
    AOTIP_NCCL(*call.library, call.comm, AllGather, x.data(), out.data(), x.nbytes(),
               nccl::kInt8Type, call.comm, call.stream);
    return Status::kOk;
  }

  static Status reduce_scatter(const ranks::Group& group, ranks::Reduction reduction,
                               const Tensor& x, Tensor& out) {
    Call call;
    nccl::DataType type{};
    AOTIP_RETURN_IF_FAILED(nccl::type_of(x.dtype(), &type));
    AOTIP_RETURN_IF_FAILED(call.begin(group, x));
    AOTIP_NCCL(*call.library, call.comm, ReduceScatter, x.data(), out.data(),
               static_cast<size_t>(out.numel()), type, nccl::op_of(reduction), call.comm,
               call.stream);
    return Status::kOk;
  }

  static Status all_to_all(const ranks::Group& group, const size_t* in_nbytes, const Tensor& x,
                           const size_t* out_nbytes, Tensor& out) {
    Call call;
    AOTIP_RETURN_IF_FAILED(call.begin(group, x));
    AOTIP_NCCL(*call.library, call.comm, GroupStart);
    const Status sent = send_all(call, group, in_nbytes, x, out_nbytes, out);
    const nccl::Result ended = call.library->GroupEnd();  // also where one failed
    AOTIP_RETURN_IF_FAILED(sent);
    return ended == nccl::kSuccess
               ? Status::kOk
               : nccl::fail_nccl(*call.library, "ncclGroupEnd", ended, call.comm);
  }

  static Status broadcast(const ranks::Group& group, int32_t source, const Tensor& x, Tensor& out) {
    Call call;
    AOTIP_RETURN_IF_FAILED(call.begin(group, x));
    AOTIP_NCCL(*call.library, call.comm, Broadcast, x.data(), out.data(), x.nbytes(),
               nccl::kInt8Type, source, call.comm, call.stream);
    return Status::kOk;
  }

 private:
  static Status send_all(const Call& call, const ranks::Group& group, const size_t* in_nbytes,
                         const Tensor& x, const size_t* out_nbytes, Tensor& out) {
    size_t from = 0;
    size_t to = 0;
    for (int peer = 0; peer < static_cast<int>(group.size); ++peer) {
      if (in_nbytes[peer] > 0) {
        AOTIP_NCCL(*call.library, call.comm, Send, at(x, from), in_nbytes[peer], nccl::kInt8Type,
                   peer, call.comm, call.stream);
      }
      if (out_nbytes[peer] > 0) {
        AOTIP_NCCL(*call.library, call.comm, Recv, const_cast<uint8_t*>(at(out, to)),
                   out_nbytes[peer], nccl::kInt8Type, peer, call.comm, call.stream);
      }
      from += in_nbytes[peer];
      to += out_nbytes[peer];
    }
    return Status::kOk;
  }
};

}  // namespace
}  // namespace aoti_plugins::cuda

#define AOTIP_COLLECTIVE(name) aoti_torch_cuda_##name
#define AOTIP_COLLECTIVES ::aoti_plugins::cuda::Collectives
#include "ops/collective_shims.inc"

AOTITorchError aoti_torch_cuda_linear_all_reduce(AtenTensorHandle x, AtenTensorHandle weight,
                                                 AtenTensorHandle* residual, int64_t reduction,
                                                 int64_t world_size, int64_t group_size,
                                                 int64_t stride, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, weight);
    AOTIP_CHECK_ARG(ret0);
    return cuda::linear_all_reduce(*unwrap(x), *unwrap(weight), unwrap_optional(residual),
                                   reduction, {world_size, group_size, stride}, ret0);
  });
}
