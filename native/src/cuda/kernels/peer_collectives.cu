// Collectives of little data between GPUs that reach each other's memory: each rank writes its part
// to all others and waits for theirs.

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/peer_collectives.h"
#include "cuda/kernels/ptx.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// Looks at what does not come so often before the host is asked whether to go on.
constexpr uint32_t kLooks = 1024;

/// Packet i of memory of any alignment; what is behind its end counts as 0.
__device__ uint2 load_packet(const void* from, int64_t i, int64_t nbytes) {
  const int64_t left = nbytes - i * kPacketNbytes;
  if (reinterpret_cast<uintptr_t>(from) % kPacketNbytes == 0 && left >= kPacketNbytes) {
    return static_cast<const uint2*>(from)[i];
  }
  const auto* const bytes = static_cast<const uint8_t*>(from) + i * kPacketNbytes;
  uint32_t words[2] = {0, 0};
  for (int at = 0; at < kPacketNbytes && at < left; ++at) {
    words[at / 4] |= uint32_t{bytes[at]} << at % 4 * 8;
  }
  return {words[0], words[1]};
}

__device__ void store_packet(void* to, int64_t i, int64_t nbytes, uint2 packet) {
  const int64_t left = nbytes - i * kPacketNbytes;
  if (reinterpret_cast<uintptr_t>(to) % kPacketNbytes == 0 && left >= kPacketNbytes) {
    static_cast<uint2*>(to)[i] = packet;
    return;
  }
  auto* const bytes = static_cast<uint8_t*>(to) + i * kPacketNbytes;
  for (int at = 0; at < kPacketNbytes && at < left; ++at) {
    bytes[at] = static_cast<uint8_t>((at < 4 ? packet.x : packet.y) >> at % 4 * 8);
  }
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

  __device__ uint2 get() {
    if (reduction_ == PeerReduction::kAverage) {
      for (float& value : values_) {
        value /= static_cast<float>(count_);
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
      const uint2 own = load_packet(call_.x, i, call_.nbytes);
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
      return load_packet(call_.x, i, call_.nbytes);
    }
    const uint4* const from = place(rank, peers.place) + i;
    uint4 found = load_of_peer(from);
    for (uint32_t looks = 1; (found.y != number_ || found.w != number_) && goes_on(peers, looks);
         ++looks) {
      found = load_of_peer(from);
    }
    return {found.x, found.z};
  }

  /// All threads of the block come here when they have got what they waited for.
  __device__ void end() const {
    __syncthreads();
    if (threadIdx.x == 0) {
      // 0 is what there is at first, so no call has that number; halves alternate all the same. A
      // packet that no call has sent for 2^32 calls could be taken for a new one.
      call_.peers.calls[blockIdx.x] = number_ + 1 == 0 ? 2 : number_ + 1;
    }
  }

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
    store_packet(call.out, i, call.nbytes, sum.get());
  }
  packets.end();
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
      store_packet(to, i, call.nbytes, packets.of(rank, i));
    }
  }
  packets.end();
}
