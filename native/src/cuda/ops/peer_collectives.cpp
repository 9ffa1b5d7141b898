#include "cuda/ops/peer_collectives.h"

#include <algorithm>

#include "cuda/driver/device_kernels.h"
#include "cuda/ranks/peer_memory.h"
#include "cuda/ranks/sends_ahead.h"
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

/// Kernels that reduce elements of a dtype; null where there are none.
struct Reducing {
  const char* packets = nullptr;
  const char* pieces = nullptr;
};

Reducing reducing(int32_t dtype) {
  switch (dtype) {
    case kFloat32:
      return {"aotip_peer_reduce_f32", "aotip_reduce_pieces_f32"};
    case kBFloat16:
      return {"aotip_peer_reduce_bf16", "aotip_reduce_pieces_bf16"};
    case kFloat16:
      return {"aotip_peer_reduce_f16", "aotip_reduce_pieces_f16"};
    default:
      return {};
  }
}

/// Whether each rank can send so many bytes to all others in packets. The same on all ranks.
bool fits_packets(const ranks::Group& group, int64_t nbytes) {
  return group.size <= kMostPeers && nbytes * (group.size - 1) <= kMostPackets * kPacketNbytes;
}

/// Whether what is reduced goes in pieces. Among more ranks each would send all to all; NCCL's
/// rings send it once.
bool goes_in_pieces(const ranks::Group& group, const Tensor& x) {
  return group.size == 2 && reducing(x.dtype()).pieces != nullptr &&
         !fits_packets(group, static_cast<int64_t>(x.nbytes()));
}

unsigned int blocks_for(int64_t nbytes, int64_t block_nbytes, int64_t most) {
  return static_cast<unsigned int>(std::min((nbytes + block_nbytes - 1) / block_nbytes, most));
}

Status send_packets(const char* kernel, const ranks::Group& group, PeerReduction reduction,
                    const Tensor& x, const Tensor* residual, Tensor& out, bool* ret_is_done) {
  const int32_t gpu = x.device().index;
  const PeerMemory* peers = nullptr;
  AOTIP_RETURN_IF_FAILED(peer_memory_of(group, gpu, PeerUse::kPackets, &peers));
  *ret_is_done = peers != nullptr;
  const auto nbytes = static_cast<int64_t>(x.nbytes());
  if (peers == nullptr || nbytes == 0) {
    return Status::kOk;
  }
  PeerCall call{*peers,
                x.data(),
                residual != nullptr ? residual->data() : nullptr,
                out.data(),
                nbytes,
                reduction,
                packets_of_rank(group.size)};
  void* arguments[] = {&call};
  constexpr int64_t kBlockNbytes = int64_t{kPeerThreads} * kPacketNbytes;
  return launch_early(gpu, kernel, {blocks_for(nbytes, kBlockNbytes, kPeerBlocks), kPeerThreads, 0},
                      arguments);
}

/// In turns of what the memory takes.
Status send_pieces(const char* kernel, const ranks::Group& group, PeerReduction reduction,
                   const Tensor& x, const SentAhead& ahead, const Tensor* residual, Tensor& out,
                   bool* ret_is_done) {
  const int32_t gpu = x.device().index;
  const PeerMemory* peers = nullptr;
  AOTIP_RETURN_IF_FAILED(peer_memory_of(group, gpu, PeerUse::kPieces, &peers));
  *ret_is_done = peers != nullptr;
  if (peers == nullptr) {
    return Status::kOk;
  }
  count_sum(group);
  if (ahead.nbytes > 0) {
    AOTIP_RETURN_IF_FAILED(wait_for_copies_beside(gpu));
  }
  const auto nbytes = static_cast<int64_t>(x.nbytes());
  for (int64_t start = 0; start < nbytes; start += kPiecesNbytes) {
    const bool is_first = start == 0;
    PieceCall call{
        *peers,
        static_cast<const char*>(x.data()) + start,
        residual != nullptr ? static_cast<const char*>(residual->data()) + start : nullptr,
        static_cast<char*>(out.data()) + start,
        std::min(kPiecesNbytes, nbytes - start),
        reduction,
        is_first ? ahead.nbytes / kPieceNbytes : 0,
        ahead.place};
    void* arguments[] = {&call};
    const unsigned int blocks = blocks_for(call.nbytes, kPieceNbytes, kPieceBlocks);
    // Nothing begins early that waits for more than the kernel before.
    AOTIP_RETURN_IF_FAILED(launch_wide(gpu, kernel, {blocks, kPieceThreads, 0},
                                       !is_first || ahead.nbytes == 0, arguments));
  }
  return Status::kOk;
}

}  // namespace

Status may_send_ahead(const ranks::Group& group, const Tensor& x,
                      int64_t* ret_multiprocessors) noexcept {
  *ret_multiprocessors = 0;
  if (!goes_in_pieces(group, x) || sums_in_a_row(group) == 0) {
    return Status::kOk;
  }
  const PeerMemory* peers = nullptr;
  AOTIP_RETURN_IF_FAILED(peer_memory_of(group, x.device().index, PeerUse::kPieces, &peers));
  *ret_multiprocessors = peers != nullptr ? peers->multiprocessors : 0;
  return Status::kOk;
}

Status send_ahead(const ranks::Group& group, const Tensor& x, int64_t nbytes,
                  SentAhead* ret) noexcept {
  *ret = {};
  const int64_t sent = std::min(nbytes, kPiecesNbytes) / kPieceNbytes * kPieceNbytes;
  if (sent == 0) {
    return Status::kOk;
  }
  const int32_t gpu = x.device().index;
  const PeerMemory* peers = nullptr;
  AOTIP_RETURN_IF_FAILED(peer_memory_of(group, gpu, PeerUse::kPieces, &peers));
  if (peers == nullptr) {
    return Status::kOk;
  }
  // The sum before used the other place, or none: that it is over says that this one has been read.
  *ret = {sent, sums_in_a_row(group) % 2};
  char* const others = static_cast<char*>(peers->memory[1 - peers->place]);
  return copy_beside(gpu, others + kStartAhead + ret->place * kPiecesNbytes, x.data(),
                     static_cast<size_t>(sent));
}

Status peer_all_reduce(const ranks::Group& group, ranks::Reduction reduction, const Tensor& x,
                       const SentAhead& ahead, const Tensor* residual, Tensor& out,
                       bool* ret_is_done) noexcept {
  *ret_is_done = false;
  const Reducing kernels = reducing(x.dtype());
  const auto how = static_cast<PeerReduction>(reduction);
  if (goes_in_pieces(group, x)) {
    return send_pieces(kernels.pieces, group, how, x, ahead, residual, out, ret_is_done);
  }
  const bool is_little =
      kernels.packets != nullptr && fits_packets(group, static_cast<int64_t>(x.nbytes()));
  return is_little ? send_packets(kernels.packets, group, how, x, residual, out, ret_is_done)
                   : Status::kOk;
}

Status peer_all_gather(const ranks::Group& group, const Tensor& x, Tensor& out,
                       bool* ret_is_done) noexcept {
  *ret_is_done = false;
  return fits_packets(group, static_cast<int64_t>(x.nbytes()))
             ? send_packets("aotip_peer_gather", group, PeerReduction::kSum, x, nullptr, out,
                            ret_is_done)
             : Status::kOk;
}

}  // namespace aoti_plugins::cuda
