#include "cuda/ops/all_reduce.h"

#include "cuda/driver/stream.h"
#include "cuda/libraries/nccl.h"
#include "cuda/ops/around_products.h"
#include "cuda/ranks/communicators.h"

namespace aoti_plugins::cuda {

Status all_reduce(const ranks::Group& group, ranks::Reduction reduction, const Tensor& x,
                  const SentAhead& ahead, const Tensor* residual, Tensor& out) noexcept {
  bool is_done = false;
  AOTIP_RETURN_IF_FAILED(peer_all_reduce(group, reduction, x, ahead, residual, out, &is_done));
  if (is_done) {
    return Status::kOk;
  }
  nccl::DataType type{};
  AOTIP_RETURN_IF_FAILED(nccl::type_of(x.dtype(), &type));
  nccl::Comm comm = nullptr;
  AOTIP_RETURN_IF_FAILED(communicator_of(group, x.device().index, &comm));
  AOTIP_NCCL(*nccl::open(), comm, AllReduce, x.data(), out.data(), static_cast<size_t>(x.numel()),
             type, nccl::op_of(reduction), comm, current_stream().handle);
  return residual != nullptr ? add_residual(*residual, out) : Status::kOk;
}

}  // namespace aoti_plugins::cuda
