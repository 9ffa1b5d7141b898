#pragma once

// Instructions for which CUDA C++ has no name. The stand-in for a GPU has functions of the same
// names (tests/fake_cuda/emulated_ptx.h).

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace aoti_plugins::cuda {

/// sum += a * b for a tile of 16 x 8, each lane with its part: a [16, 16] and b [16, 8] of T.
template <typename T>
__device__ void multiply_tile(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
inline __device__ void multiply_tile<__nv_bfloat16>(float (&sum)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
inline __device__ void multiply_tile<__half>(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// sum += a * b for a tile of 16 x 8 of integers, each lane with its part: a [16, 32] and b [32, 8]
/// of 8 bits.
inline __device__ void multiply_tile_of_bytes(int32_t (&sum)[4], const uint32_t (&a)[4],
                                              uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// (bits & MASK) ^ others in one instruction.
template <uint32_t MASK>
__device__ uint32_t masked_xor(uint32_t bits, uint32_t others) {
  uint32_t found;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(found) : "r"(bits), "n"(MASK), "r"(others));
  return found;
}

/// Shared memory of the size that the launch gives.
inline __device__ void* launched_memory() {
  extern __shared__ uint4 launched[];
  return launched;
}

/// 16 bytes that nobody reads again.
inline __device__ uint4 load_once(const uint4* from) {
  uint4 found;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(from));
  return found;
}

/// What may be written at this moment, for those who are right with anything. It is not kept near
/// the multiprocessor, so that who reads it again when it has been written gets that.
inline __device__ int4 load_hint(const int4* from) {
  int4 found;
  asm volatile("ld.relaxed.gpu.global.v4.s32 {%0,%1,%2,%3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(from)
               : "memory");
  return found;
}

/// 16 bytes to memory of another GPU. Each half of them gets there whole.
inline __device__ void store_for_peer(uint4* to, uint4 value) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

/// 16 bytes that another GPU may be writing.
inline __device__ uint4 load_of_peer(const uint4* from) {
  uint4 found;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(from)
               : "memory");
  return found;
}

/// Writes a word to memory of another GPU, and before it all that this block has written up to its
/// last barrier.
inline __device__ void show_to_peer(uint32_t* to, uint32_t value) {
  asm volatile(
      "fence.acq_rel.sys;\n"
      "st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to),
      "r"(value)
      : "memory");
}

/// A word that another GPU shows; what it wrote before that can be read afterwards.
inline __device__ uint32_t seen_of_peer(const uint32_t* from) {
  uint32_t found;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(found) : "l"(from) : "memory");
  return found;
}

/// A word that the host may be writing.
inline __device__ int32_t load_of_host(const int32_t* from) {
  return *static_cast<const volatile int32_t*>(from);
}

/// Begins to bring bytes into the GPU's cache: `nbytes` is a multiple of 16, as is `from`.
inline __device__ void prefetch_bytes(const void* from, uint32_t nbytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(nbytes) : "memory");
#endif
}

/// Begins to bring a line into the GPU's cache.
inline __device__ void prefetch_line(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/// Whether this is one lane of its warp, the same each time. All lanes ask.
inline __device__ bool is_chosen_lane() {
#if __CUDA_ARCH__ >= 900
  uint32_t is_chosen;
  asm volatile(
      "{\n"
      ".reg .pred chosen;\n"
      "elect.sync _|chosen, 0xffffffff;\n"
      "selp.b32 %0, 1, 0, chosen;\n"
      "}"
      : "=r"(is_chosen));
  return is_chosen != 0;
#else
  return threadIdx.x % 32 == 0;
#endif
}

/// Where threads and copies of bytes arrive, in shared memory. A turn ends when `count` threads and
/// all bytes that these said would come have arrived; then the next one begins.
using Arrivals = uint64_t;

inline __device__ uint32_t shared_address(const void* in_shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(in_shared));
}

inline __device__ void begin_arrivals(Arrivals* arrivals, uint32_t count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(arrivals)), "r"(count)
               : "memory");
#endif
}

/// Copies may arrive from here on.
inline __device__ void show_arrivals_to_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

inline __device__ void arrive(Arrivals* arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(arrivals))
               : "memory");
#endif
}

/// Arrives, and says how many bytes will.
inline __device__ void arrive_before(Arrivals* arrivals, uint32_t nbytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrivals)),
      "r"(nbytes)
      : "memory");
#endif
}

/// Waits for the end of a turn: of an even one (0) or an odd one (1), whichever is the last or the
/// present one.
inline __device__ void wait_for_turn(Arrivals* arrivals, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra END;\n"
      "bra AGAIN;\n"
      "END:\n"
      "}" ::"r"(shared_address(arrivals)),
      "r"(parity)
      : "memory");
#endif
}

/// Begins to copy to shared memory; addresses and size are multiples of 16. The bytes arrive.
inline __device__ void copy_to_shared(void* to, const void* from, uint32_t nbytes,
                                      Arrivals* arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(nbytes), "r"(shared_address(arrivals))
      : "memory");
#endif
}

/// A barrier of the first THREADS threads of a block.
template <int THREADS>
__device__ void meet_first_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

/// Waits for the kernels before this one, where it was launched before they ended.
inline __device__ void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Says that this block of a cluster has begun; `wait_for_cluster` waits until all have.
inline __device__ void begin_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;");
#endif
}

inline __device__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

/// A barrier of all threads of a cluster: what they wrote to each other's shared memory is there.
inline __device__ void meet_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// The same place in the shared memory of another block of the cluster.
inline __device__ float* shared_of_block(float* own, int rank) {
#if __CUDA_ARCH__ >= 900
  float* found;
  asm("mapa.u64 %0, %1, %2;" : "=l"(found) : "l"(own), "r"(rank));
  return found;
#else
  return own;
#endif
}

/// Lets the next kernel be launched, if it is one that waits for its inputs.
inline __device__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace aoti_plugins::cuda

#endif
