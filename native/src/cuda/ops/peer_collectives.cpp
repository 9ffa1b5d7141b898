#include "cuda/ops/peer_collectives.h"

#include <algorithm>

#include "cuda/driver/device_kernels.h"
#include "cuda/ranks/peer_memory.h"
#include "slim/dtype.h"

namespace aoti_plugins::cuda {
namespace {

static_assert(static_cast<int64_t>(ranks::Reduction::kSum) ==
                  static_cast<int64_t>(PeerReduction::kSum) &&
              static_cast<int64_t>(ranks::Reduction::kMinimum) ==
                  static_cast<int64_t>(PeerReduction::kMinimum) &&
              static_cast<int64_t>(ranks::Reduction::kAverage) ==
                  static_cast<int64_t>(PeerReduction::kAverage) &&
              static_cast<int64_t>(ranks::Reduction::kMaximum) ==
                  static_cast<int64_t>(PeerReduction::kMaximum) &&
              static_cast<int64_t>(ranks::Reduction::kProduct) ==
                  static_cast<int64_t>(PeerReduction::kProduct));

/// The kernel that reduces elements of a dtype; null where there is none.
const char* reducing_kernel(int32_t dtype) {
  switch (dtype) {
    case kFloat32:
      return "aotip_peer_reduce_f32";
    case kBFloat16:
      return "aotip_peer_reduce_bf16";
    case kFloat16:
      return "aotip_peer_reduce_f16";
    default:
      return nullptr;
  }
}

/// Whether each rank can send so many bytes to all others. The same on all ranks.
bool fits(const ranks::Group& group, int64_t nbytes) {
  return group.size <= kMostPeers && nbytes * (group.size - 1) <= kMostPackets * kPacketNbytes;
}

Status run(const char* kernel, const ranks::Group& group, PeerReduction reduction, const Tensor& x,
           Tensor& out, bool* ret_is_done) {
  *ret_is_done = false;
  const auto nbytes = static_cast<int64_t>(x.nbytes());
  if (kernel == nullptr || !fits(group, nbytes)) {
    return Status::kOk;
  }
  const int32_t gpu = x.device().index;
  const PeerMemory* peers = nullptr;
  AOTIP_RETURN_IF_FAILED(peer_memory_of(group, gpu, &peers));
  *ret_is_done = peers != nullptr;
  if (peers == nullptr || nbytes == 0) {
    return Status::kOk;
  }
  PeerCall call{*peers, x.data(), out.data(), nbytes, reduction, packets_of_rank(group.size)};
  constexpr int64_t kBlockNbytes = int64_t{kPeerThreads} * kPacketNbytes;
  const int64_t blocks = std::min<int64_t>((nbytes + kBlockNbytes - 1) / kBlockNbytes, kPeerBlocks);
  void* arguments[] = {&call};
  return launch_early(gpu, kernel, {static_cast<unsigned int>(blocks), kPeerThreads, 0}, arguments);
}

}  // namespace

Status peer_all_reduce(const ranks::Group& group, ranks::Reduction reduction, const Tensor& x,
                       Tensor& out, bool* ret_is_done) noexcept {
  return run(reducing_kernel(x.dtype()), group, static_cast<PeerReduction>(reduction), x, out,
             ret_is_done);
}

Status peer_all_gather(const ranks::Group& group, const Tensor& x, Tensor& out,
                       bool* ret_is_done) noexcept {
  return run("aotip_peer_gather", group, PeerReduction::kSum, x, out, ret_is_done);
}

}  // namespace aoti_plugins::cuda
