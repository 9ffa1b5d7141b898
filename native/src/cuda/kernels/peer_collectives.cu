// Collectives between GPUs that reach each other's memory: each rank writes its part to all others
// and waits for theirs.

#include <type_traits>

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/peer_collectives.h"
#include "cuda/kernels/ptx.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// Looks at what does not come so often before the host is asked whether to go on.
constexpr uint32_t kLooks = 1024;

/// A T of memory of any alignment, which may end before; what is behind its end counts as 0.
template <typename T>
__device__ T load_bytes(const uint8_t* from, int64_t left) {
  union {
    uint32_t words[sizeof(T) / 4];
    T whole;
  } part = {};
#pragma unroll
  for (int word = 0; word < static_cast<int>(sizeof(T)) / 4; ++word) {
#pragma unroll 1
    for (int at = word * 4; at < word * 4 + 4 && at < left; ++at) {
      part.words[word] |= uint32_t{from[at]} << at % 4 * 8;
    }
  }
  return part.whole;
}

template <typename T>
__device__ void store_bytes(uint8_t* to, int64_t left, const T& whole) {
#pragma unroll
  for (int word = 0; word < static_cast<int>(sizeof(T)) / 4; ++word) {
    const uint32_t value = reinterpret_cast<const uint32_t*>(&whole)[word];
#pragma unroll 1
    for (int at = word * 4; at < word * 4 + 4 && at < left; ++at) {
      to[at] = static_cast<uint8_t>(value >> at % 4 * 8);
    }
  }
}

/// The i-th T of memory of any alignment; what is behind its end counts as 0.
template <typename T>
__device__ T load_part(const void* from, int64_t i, int64_t nbytes) {
  constexpr int kNbytes = sizeof(T);
  const int64_t left = nbytes - i * kNbytes;
  if (reinterpret_cast<uintptr_t>(from) % kNbytes == 0 && left >= kNbytes) {
    return static_cast<const T*>(from)[i];
  }
  return load_bytes<T>(static_cast<const uint8_t*>(from) + i * kNbytes, left);
}

template <typename T>
__device__ void store_part(void* to, int64_t i, int64_t nbytes, const T& whole) {
  constexpr int kNbytes = sizeof(T);
  const int64_t left = nbytes - i * kNbytes;
  if (reinterpret_cast<uintptr_t>(to) % kNbytes == 0 && left >= kNbytes) {
    static_cast<T*>(to)[i] = whole;
    return;
  }
  store_bytes(static_cast<uint8_t*>(to) + i * kNbytes, left, whole);
}

__device__ __noinline__ uint4 load_end(const uint8_t* from, int64_t left) {
  return load_bytes<uint4>(from, left);
}

__device__ __noinline__ void store_end(uint8_t* to, int64_t left, const uint4& whole) {
  store_bytes(to, left, whole);
}

// 16 bytes of elements T, in loops that are unrolled: what is rarely needed is called, without
// which the image would be larger by a twentieth. Loops of floats are slower with calls where they
// load.
template <typename T>
__device__ uint4 load_packet(const void* from, int64_t i, int64_t nbytes) {
  if constexpr (std::is_same_v<T, float>) {
    return load_part<uint4>(from, i, nbytes);
  }
  const int64_t left = nbytes - i * 16;
  if (reinterpret_cast<uintptr_t>(from) % 16 == 0 && left >= 16) {
    return static_cast<const uint4*>(from)[i];
  }
  return load_end(static_cast<const uint8_t*>(from) + i * 16, left);
}

__device__ void store_packet(void* to, int64_t i, int64_t nbytes, const uint4& whole) {
  const int64_t left = nbytes - i * 16;
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0 && left >= 16) {
    static_cast<uint4*>(to)[i] = whole;
    return;
  }
  store_end(static_cast<uint8_t*>(to) + i * 16, left, whole);
}

/// Elements of 8 bytes as floats, and back.
template <typename T>
struct Packed {
  static constexpr int kCount = 4;
  __device__ static void unpack(uint2 packet, float (&values)[4]) {
    const float2 low = HalfPair<T>::floats(packet.x);
    const float2 high = HalfPair<T>::floats(packet.y);
    values[0] = low.x;
    values[1] = low.y;
    values[2] = high.x;
    values[3] = high.y;
  }
  __device__ static uint2 pack(const float (&values)[4]) {
    return {HalfPair<T>::of(values[0], values[1]), HalfPair<T>::of(values[2], values[3])};
  }
};

template <>
struct Packed<float> {
  static constexpr int kCount = 2;
  __device__ static void unpack(uint2 packet, float (&values)[2]) {
    values[0] = __uint_as_float(packet.x);
    values[1] = __uint_as_float(packet.y);
  }
  __device__ static uint2 pack(const float (&values)[2]) {
    return {__float_as_uint(values[0]), __float_as_uint(values[1])};
  }
};

/// Of two ranks' elements; a NaN stays one.
__device__ float joined(PeerReduction reduction, float a, float b) {
  switch (reduction) {
    case PeerReduction::kMinimum:
      return a != a || a < b ? a : b;
    case PeerReduction::kMaximum:
      return a != a || a > b ? a : b;
    case PeerReduction::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

/// Elements of ranks as one, in the order in which they are added.
template <typename T>
class Joined {
 public:
  __device__ Joined(PeerReduction reduction, uint2 first) : reduction_(reduction) {
    Packed<T>::unpack(first, values_);
  }

  __device__ void add(uint2 packet) {
    float others[Packed<T>::kCount];
    Packed<T>::unpack(packet, others);
    for (int at = 0; at < Packed<T>::kCount; ++at) {
      values_[at] = joined(reduction_, values_[at], others[at]);
    }
    ++count_;
  }

  /// With what is added in the end, unless that is null.
  __device__ uint2 get(const uint2* residual) {
    if (reduction_ == PeerReduction::kAverage) {
      for (float& value : values_) {
        value /= static_cast<float>(count_);
      }
    }
    if (residual != nullptr) {
      float added[Packed<T>::kCount];
      Packed<T>::unpack(*residual, added);
      for (int at = 0; at < Packed<T>::kCount; ++at) {
        values_[at] += added[at];
      }
    }
    return Packed<T>::pack(values_);
  }

 private:
  PeerReduction reduction_;
  int count_ = 1;
  float values_[Packed<T>::kCount];
};

/// Whether to look once more for what has not come after so many looks.
__device__ bool goes_on(const PeerMemory& peers, uint32_t looks) {
  return looks % kLooks != 0 || load_of_host(peers.stop) == 0;
}

/// All threads of a block come here when they have got what they waited for.
__device__ void end_call(const PeerMemory& peers, uint32_t number) {
  __syncthreads();
  if (threadIdx.x == 0) {
    // 0 is what there is at first, so no call has that number; halves alternate all the same. What
    // no call has sent for 2^32 calls could be taken for new.
    peers.calls[blockIdx.x] = number + 1 == 0 ? 2 : number + 1;
  }
}

/// The packets of one call that belong to this thread: sent first, then waited for.
class Packets {
 public:
  __device__ explicit Packets(const PeerCall& call)
      : call_(call), number_(call.peers.calls[blockIdx.x]) {}

  __device__ int64_t first() const {
    return int64_t{blockIdx.x} * kPeerThreads + static_cast<int>(threadIdx.x);
  }
  __device__ int64_t step() const { return int64_t{kPeerThreads} * kPeerBlocks; }
  __device__ int64_t count() const { return (call_.nbytes + kPacketNbytes - 1) / kPacketNbytes; }

  __device__ void send() const {
    const PeerMemory& peers = call_.peers;
    for (int64_t i = first(); i < count(); i += step()) {
      const uint2 own = load_part<uint2>(call_.x, i, call_.nbytes);
      for (int other = 1; other < peers.size; ++other) {
        store_for_peer(place(peers.place, (peers.place + other) % peers.size) + i,
                       {own.x, number_, own.y, number_});
      }
    }
  }

  /// Packet i of a rank, when it is there.
  __device__ uint2 of(int rank, int64_t i) const {
    const PeerMemory& peers = call_.peers;
    if (rank == peers.place) {
      return load_part<uint2>(call_.x, i, call_.nbytes);
    }
    const uint4* const from = place(rank, peers.place) + i;
    uint4 found = load_of_peer(from);
    for (uint32_t looks = 1; (found.y != number_ || found.w != number_) && goes_on(peers, looks);
         ++looks) {
      found = load_of_peer(from);
    }
    return {found.x, found.z};
  }

  __device__ void end() const { end_call(call_.peers, number_); }

 private:
  /// Where packets of a rank are in another's memory.
  __device__ uint4* place(int from, int to) const {
    return static_cast<uint4*>(call_.peers.memory[to]) +
           (int64_t{number_ % 2} * call_.peers.size + from) * call_.rank_packets;
  }

  const PeerCall& call_;
  uint32_t number_;
};

template <typename T>
__device__ void all_reduce(const PeerCall& call) {
  let_next_begin();
  wait_for_inputs();
  const Packets packets(call);
  packets.send();
  for (int64_t i = packets.first(); i < packets.count(); i += packets.step()) {
    Joined<T> sum(call.reduction, packets.of(0, i));
    for (int rank = 1; rank < call.peers.size; ++rank) {
      sum.add(packets.of(rank, i));
    }
    uint2 residual = {};
    if (call.residual != nullptr) {
      residual = load_part<uint2>(call.residual, i, call.nbytes);
    }
    store_part(call.out, i, call.nbytes, sum.get(call.residual != nullptr ? &residual : nullptr));
  }
  packets.end();
}

/// What one thread has of a piece of a tensor.
struct PieceOfThread {
  uint4 packets[kThreadPackets];
};

/// The pieces of one call that belong to this block.
template <typename T>
class Pieces {
 public:
  __device__ explicit Pieces(const PieceCall& call)
      : call_(call), number_(call.peers.calls[blockIdx.x]) {}

  __device__ int64_t count() const { return (call_.nbytes + kPieceNbytes - 1) / kPieceNbytes; }

  /// This thread's 16 bytes in a piece, by their place in all of the data.
  __device__ int64_t packet(int64_t piece, int at) const {
    return (piece * kThreadPackets + at) * kPieceThreads + static_cast<int>(threadIdx.x);
  }
  __device__ bool has(int64_t packet) const { return packet * 16 < call_.nbytes; }

  /// Whether a piece is full, and all tensors can be read and written 16 bytes at once.
  __device__ bool is_whole(int64_t piece) const {
    const auto at = reinterpret_cast<uintptr_t>(call_.x) | reinterpret_cast<uintptr_t>(call_.out) |
                    reinterpret_cast<uintptr_t>(call_.residual);
    return at % 16 == 0 && (piece + 1) * kPieceNbytes <= call_.nbytes;
  }

  /// Of a tensor of this rank; nothing where there is no such piece.
  __device__ void load(const void* from, int64_t piece, PieceOfThread& part) const {
    if (is_whole(piece)) {
#pragma unroll
      for (int at = 0; at < kThreadPackets; ++at) {
        part.packets[at] = static_cast<const uint4*>(from)[packet(piece, at)];
      }
      return;
    }
#pragma unroll
    for (int at = 0; at < kThreadPackets; ++at) {
      if (has(packet(piece, at))) {
        part.packets[at] = load_packet<T>(from, packet(piece, at), call_.nbytes);
      }
    }
  }

  /// What this rank adds to a piece that comes; other reductions than sums read it later.
  template <bool SUM>
  __device__ void load_own(int64_t piece, PieceOfThread& own, PieceOfThread& residual) const {
    if (!SUM) {
      return;
    }
    load(call_.x, piece, own);
    if (call_.residual != nullptr) {
      load(call_.residual, piece, residual);
    }
  }

  /// Begins to write a piece to the other rank's memory; nothing where there is no such piece.
  __device__ void send(int64_t piece) const {
    PieceOfThread own;
    load(call_.x, piece, own);
    auto* const to = reinterpret_cast<uint4*>(half(1 - call_.peers.place));
#pragma unroll
    for (int at = 0; at < kThreadPackets; ++at) {
      if (has(packet(piece, at))) {
        to[packet(piece, at)] = own.packets[at];
      }
    }
  }

  /// Says that a piece is there, which went ahead, or which this block has sent before a barrier.
  __device__ void show(int64_t piece) const {
    if (threadIdx.x == 0 && piece < count()) {
      show_to_peer(numbers(half(1 - call_.peers.place)) + piece, number_);
    }
  }

  /// With a barrier of this block.
  __device__ void wait_for(int64_t piece) const {
    if (threadIdx.x == 0) {
      const uint32_t* const number = numbers(half(call_.peers.place)) + piece;
      uint32_t looks = 1;
      while (seen_of_peer(number) != number_ && goes_on(call_.peers, looks)) {
        ++looks;
      }
    }
    __syncthreads();
  }

  /// What came of a piece from the other rank and this one's, as one.
  template <bool SUM>
  __device__ void join(int64_t piece, const PieceOfThread& own,
                       const PieceOfThread& residual) const {
    const uint4* const came = came_to(piece);
    if (!SUM) {
      join_each(piece, came);
      return;
    }
    const bool whole = is_whole(piece);
    PieceOfThread others;
#pragma unroll
    for (int at = 0; at < kThreadPackets; ++at) {
      if (whole || has(packet(piece, at))) {
        others.packets[at] = load_of_peer(came + packet(piece, at));
      }
    }
#pragma unroll
    for (int at = 0; at < kThreadPackets; ++at) {
      const int64_t i = packet(piece, at);
      if (whole) {
        static_cast<uint4*>(call_.out)[i] =
            joined<SUM>(own.packets[at], others.packets[at], residual.packets[at]);
      } else if (has(i)) {
        store_packet(call_.out, i, call_.nbytes,
                     joined<SUM>(own.packets[at], others.packets[at], residual.packets[at]));
      }
    }
  }

  __device__ void end() const { end_call(call_.peers, number_); }

 private:
  /// Of any reduction, one packet after the other: sums are what has to be fast, and the image has
  /// this loop for each dtype and GPU.
  __device__ void join_each(int64_t piece, const uint4* came) const {
#pragma unroll 1
    for (int at = 0; at < kThreadPackets; ++at) {
      const int64_t i = packet(piece, at);
      if (has(i)) {
        const uint4 own = load_packet<T>(call_.x, i, call_.nbytes);
        uint4 residual = {};
        if (call_.residual != nullptr) {
          residual = load_packet<T>(call_.residual, i, call_.nbytes);
        }
        store_packet(call_.out, i, call_.nbytes,
                     joined<false>(own, load_of_peer(came + i), residual));
      }
    }
  }

  __device__ char* half(int place) const {
    return static_cast<char*>(call_.peers.memory[place]) + number_ % 2 * kPieceHalfNbytes;
  }
  __device__ static uint32_t* numbers(char* half) {
    return reinterpret_cast<uint32_t*>(half + kPiecesNbytes);
  }

  /// Where what comes of a piece is, from packet 0 on.
  __device__ const uint4* came_to(int64_t piece) const {
    const char* const own = static_cast<const char*>(call_.peers.memory[call_.peers.place]);
    const bool is_ahead = piece < call_.pieces_ahead;
    const char* const place = own + kStartAhead + call_.place_ahead * kPiecesNbytes;
    return reinterpret_cast<const uint4*>(is_ahead ? place : half(call_.peers.place));
  }

  /// 16 bytes of two ranks as one, in the order of ranks.
  template <bool SUM>
  __device__ uint4 joined(const uint4& own, const uint4& other, const uint4& residual) const {
    const uint4& first = call_.peers.place == 0 ? own : other;
    const uint4& second = call_.peers.place == 0 ? other : own;
    const PeerReduction reduction = SUM ? PeerReduction::kSum : call_.reduction;
    Joined<T> low(reduction, {first.x, first.y});
    low.add({second.x, second.y});
    Joined<T> high(reduction, {first.z, first.w});
    high.add({second.z, second.w});
    const uint2 added[] = {{residual.x, residual.y}, {residual.z, residual.w}};
    const bool adds = call_.residual != nullptr;
    const uint2 a = low.get(adds ? &added[0] : nullptr);
    const uint2 b = high.get(adds ? &added[1] : nullptr);
    return {a.x, a.y, b.x, b.y};
  }

  const PieceCall& call_;
  uint32_t number_;
};

/// The link has something to do while blocks wait and add: a piece is sent before the one in front
/// of it is waited for, and the first one before what came ahead is added. That a piece is there is
/// said late, because who says it waits for all that was sent.
template <typename T, bool SUM>
__device__ void reduce_pieces_of(const PieceCall& call) {
  const Pieces<T> pieces(call);
  PieceOfThread own;
  PieceOfThread residual = {};
  int64_t piece = blockIdx.x;
  const bool has_ahead = piece < call.pieces_ahead;
  const int64_t ahead = (call.pieces_ahead - piece + kPieceBlocks - 1) / kPieceBlocks;
  const int64_t first = has_ahead ? piece + ahead * kPieceBlocks : piece;
  if (has_ahead) {
    pieces.show(piece);  // for all of this block's that went ahead
  }
  pieces.send(first);
  if (has_ahead) {
    pieces.wait_for(piece);
    for (; piece < first; piece += kPieceBlocks) {
      pieces.template load_own<SUM>(piece, own, residual);
      pieces.template join<SUM>(piece, own, residual);
    }
  } else {
    __syncthreads();
  }
  pieces.show(first);
  for (; piece < pieces.count(); piece += kPieceBlocks) {
    pieces.send(piece + kPieceBlocks);
    pieces.template load_own<SUM>(piece, own, residual);
    pieces.wait_for(piece);
    pieces.template join<SUM>(piece, own, residual);
    pieces.show(piece + kPieceBlocks);
  }
  pieces.end();
}

template <typename T>
__device__ void reduce_pieces(const PieceCall& call) {
  let_next_begin();
  wait_for_inputs();
  if (call.reduction == PeerReduction::kSum) {
    reduce_pieces_of<T, true>(call);
  } else {
    reduce_pieces_of<T, false>(call);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kPeerThreads)
    aotip_peer_reduce_f32(const __grid_constant__ PeerCall call) {
  all_reduce<float>(call);
}

extern "C" __global__ void __launch_bounds__(kPeerThreads)
    aotip_peer_reduce_bf16(const __grid_constant__ PeerCall call) {
  all_reduce<__nv_bfloat16>(call);
}

extern "C" __global__ void __launch_bounds__(kPeerThreads)
    aotip_peer_reduce_f16(const __grid_constant__ PeerCall call) {
  all_reduce<__half>(call);
}

/// out [size, nbytes] = x of all ranks.
extern "C" __global__ void __launch_bounds__(kPeerThreads)
    aotip_peer_gather(const __grid_constant__ PeerCall call) {
  let_next_begin();
  wait_for_inputs();
  const Packets packets(call);
  packets.send();
  for (int64_t i = packets.first(); i < packets.count(); i += packets.step()) {
    for (int rank = 0; rank < call.peers.size; ++rank) {
      void* const to = static_cast<uint8_t*>(call.out) + rank * call.nbytes;
      store_part(to, i, call.nbytes, packets.of(rank, i));
    }
  }
  packets.end();
}

extern "C" __global__ void __launch_bounds__(kPieceThreads)
    aotip_reduce_pieces_f32(const __grid_constant__ PieceCall call) {
  reduce_pieces<float>(call);
}

extern "C" __global__ void __launch_bounds__(kPieceThreads)
    aotip_reduce_pieces_bf16(const __grid_constant__ PieceCall call) {
  reduce_pieces<__nv_bfloat16>(call);
}

extern "C" __global__ void __launch_bounds__(kPieceThreads)
    aotip_reduce_pieces_f16(const __grid_constant__ PieceCall call) {
  reduce_pieces<__half>(call);
}
