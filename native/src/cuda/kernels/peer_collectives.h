#pragma once

/// What kernels are told that reach the memory of other ranks' GPUs. Read by the host code and by
/// the kernels.

#include <cstdint>

namespace aoti_plugins::cuda {

inline constexpr int32_t kMostPeers = 8;
inline constexpr int32_t kPeerThreads = 256;
inline constexpr int32_t kPeerBlocks = 64;  ///< the most blocks of a call of packets

/// Memory that the ranks of a group write to, of packets or of pieces. Each rank has some, in two
/// halves: a call uses one, the next one the other. Whatever is in a half belongs to one block, in
/// every call, and blocks count their calls each for itself. So a half is written to again when the
/// call after it has ended: that one has got from each rank what it sends when its call before has
/// ended.
struct PeerMemory {
  void* memory[kMostPeers];  ///< of each place in the group
  uint32_t* calls;           ///< of each block of this rank: the number of its next call
  const int32_t* stop;       ///< not 0 where nobody should wait any more
  int32_t size;
  int32_t place;
  int32_t multiprocessors;  ///< of the rank that has the fewest: the same on all of them
};

/// As ranks::Reduction.
enum class PeerReduction : int32_t { kSum = 0, kAverage, kMinimum, kMaximum, kProduct };

/// `nbytes` of each rank's x: elements to be reduced, or bytes that come one rank's behind
/// another's.
struct PeerCall {
  PeerMemory peers;
  const void* x;
  const void* residual;  ///< is added to what was reduced; null for nothing
  void* out;             ///< may be x
  int64_t nbytes;
  PeerReduction reduction;
  int64_t rank_packets;  ///< packets of one rank in a half
};

/// The same of much data between two ranks. The pieces at the beginning of x may be in each other's
/// memory already.
struct PieceCall {
  PeerMemory peers;
  const void* x;
  const void* residual;
  void* out;
  int64_t nbytes;
  PeerReduction reduction;
  int64_t pieces_ahead;
  int32_t place_ahead;  ///< which of two places they are in
};

/// The kernels of calls, all of which a rank has to have.
inline constexpr const char* kPeerKernels[] = {
    "aotip_peer_reduce_f32",  "aotip_peer_reduce_bf16",  "aotip_peer_reduce_f16",
    "aotip_peer_gather",      "aotip_reduce_pieces_f32", "aotip_reduce_pieces_bf16",
    "aotip_reduce_pieces_f16"};

// Packets, for little data to all ranks. Halves are packets [size, kMostPackets / (size - 1)] of 16
// bytes. A packet is a word of data, the number of the call, another word, the number again: who
// waits for it sees from the numbers that it is there. Packet i belongs to block i / kPeerThreads %
// kPeerBlocks.

inline constexpr int32_t kPacketNbytes = 8;  ///< of data
inline constexpr int32_t kSentPacketNbytes = 16;
inline constexpr int64_t kMostPackets = int64_t{64} << 10;

/// Packets of one rank in a half, for groups of a size.
constexpr int64_t packets_of_rank(int64_t size) {
  return (kMostPackets / (size - 1) + kPeerThreads - 1) / kPeerThreads * kPeerThreads;
}

// Pieces, for much data between two ranks. Halves are pieces of data, then a number for each, which
// is that of the call when the piece is there. Piece i belongs to block i % kPieceBlocks. Behind
// the halves are two places for pieces that come ahead, whose numbers are in the halves all the
// same.

inline constexpr int32_t kPieceThreads = 512;
inline constexpr int32_t kPieceBlocks = 128;  ///< the most blocks of a call
inline constexpr int32_t kThreadPackets = 4;  ///< 16 bytes each, of a thread in a piece
inline constexpr int64_t kPieceNbytes = int64_t{kPieceThreads} * kThreadPackets * 16;
inline constexpr int64_t kMostPieces = 512;
inline constexpr int64_t kPiecesNbytes = kMostPieces * kPieceNbytes;
inline constexpr int64_t kPieceHalfNbytes = kMostPieces * (kPieceNbytes + int64_t{4});

/// Where the places for what comes ahead, of kPiecesNbytes each, begin in a rank's memory.
inline constexpr int64_t kStartAhead = 2 * kPieceHalfNbytes;
inline constexpr int64_t kPieceMemoryNbytes = kStartAhead + 2 * kPiecesNbytes;

}  // namespace aoti_plugins::cuda
