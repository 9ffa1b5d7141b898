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

/// Four E4M3 of a word as two pairs of float16; on GPUs of compute capability 8.9 and newer.
inline __device__ void halves_of_e4m3(uint32_t word, uint32_t& low, uint32_t& high) {
  asm("{\n"
      ".reg .b16 first, second;\n"
      "mov.b32 {first, second}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, first;\n"
      "cvt.rn.f16x2.e4m3x2 %1, second;\n"
      "}"
      : "=r"(low), "=r"(high)
      : "r"(word));
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

/// Lines of 128 bytes in shared memory, from a multiple of 1024 bytes on, whose 16-byte pieces are
/// swapped: piece i of line l lies at i ^ l % 8.
using SharedLines = uint64_t;

/// Bytes that 1 more means.
inline constexpr int kLinesUnit = 16;

/// As tensor cores are told of them: 1024 bytes from eight of them to the next.
inline __device__ SharedLines lines_at(const char* in_shared) {
  return shared_address(in_shared) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 |
         uint64_t{1} << 62;
}

/// A tile of tensor cores that four warps multiply together: sum += a * b, 64 x COLUMNS, where a
/// warp has 16 rows of a [64, 16] as `multiply_tile` has them, and the columns of b are lines, of
/// which `step` says which 16 elements. It runs until `wait_for_group_tiles` says it has ended,
/// between `begin_group_tiles` and `end_group_tiles`. Compute capability 9.0 alone.
template <typename T, int COLUMNS>
__device__ void multiply_group_tile(float (&sum)[COLUMNS / 2], const uint32_t (&a)[4],
                                    SharedLines lines, int step, bool adds);

#define AOTIP_OPERANDS_8(I)                                                             \
  "+f"(sum[I]), "+f"(sum[I + 1]), "+f"(sum[I + 2]), "+f"(sum[I + 3]), "+f"(sum[I + 4]), \
      "+f"(sum[I + 5]), "+f"(sum[I + 6]), "+f"(sum[I + 7])
#define AOTIP_OPERANDS_32(I) \
  AOTIP_OPERANDS_8(I), AOTIP_OPERANDS_8(I + 8), AOTIP_OPERANDS_8(I + 16), AOTIP_OPERANDS_8(I + 24)

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define AOTIP_GROUP_TILE(T, TYPE, COLUMNS, SUMS, A, B, ADDS, ...)                                  \
  template <>                                                                                      \
  inline __device__ void multiply_group_tile<T, COLUMNS>(                                          \
      float (&sum)[COLUMNS / 2], const uint32_t (&a)[4], SharedLines lines, int step, bool adds) { \
    const uint64_t b = lines + step * 2;                                                           \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " ADDS                                    \
                 ", 0;\n"                                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPE "." TYPE "\n{" SUMS  \
                 "}, {" A "}, " B ", adds, 1, 1, 0;\n}"                                            \
                 : __VA_ARGS__                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0));         \
  }
#else
#define AOTIP_GROUP_TILE(T, TYPE, COLUMNS, SUMS, A, B, ADDS, ...) \
  template <>                                                     \
  inline __device__ void multiply_group_tile<T, COLUMNS>(         \
      float (&)[COLUMNS / 2], const uint32_t (&)[4], SharedLines, int, bool) {}
#endif

#define AOTIP_SUMS_32                                                                          \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24," \
  "%25,%26,%27,%28,%29,%30,%31"
#define AOTIP_SUMS_64                                                                         \
  AOTIP_SUMS_32                                                                               \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define AOTIP_SUMS_128                                                                          \
  AOTIP_SUMS_64                                                                                 \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"   \
  "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106," \
  "%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,"  \
  "%125,%126,%127"
#define AOTIP_GROUP_TILE_64(T, TYPE)                                            \
  AOTIP_GROUP_TILE(T, TYPE, 64, AOTIP_SUMS_32, "%32,%33,%34,%35", "%36", "%37", \
                   AOTIP_OPERANDS_32(0))
#define AOTIP_GROUP_TILE_128(T, TYPE)                                            \
  AOTIP_GROUP_TILE(T, TYPE, 128, AOTIP_SUMS_64, "%64,%65,%66,%67", "%68", "%69", \
                   AOTIP_OPERANDS_32(0), AOTIP_OPERANDS_32(32))

#define AOTIP_GROUP_TILE_256(T, TYPE)                                                   \
  AOTIP_GROUP_TILE(T, TYPE, 256, AOTIP_SUMS_128, "%128,%129,%130,%131", "%132", "%133", \
                   AOTIP_OPERANDS_32(0), AOTIP_OPERANDS_32(32), AOTIP_OPERANDS_32(64),  \
                   AOTIP_OPERANDS_32(96))

AOTIP_GROUP_TILE_64(__nv_bfloat16, "bf16")
AOTIP_GROUP_TILE_64(__half, "f16")
AOTIP_GROUP_TILE_128(__nv_bfloat16, "bf16")
AOTIP_GROUP_TILE_128(__half, "f16")
AOTIP_GROUP_TILE_256(__nv_bfloat16, "bf16")
AOTIP_GROUP_TILE_256(__half, "f16")

/// Before tiles whose factors and sums in registers were written.
inline __device__ void begin_group_tiles() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

inline __device__ void end_group_tiles() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits until of the tiles that were ended no more than the last PENDING times run.
template <int PENDING>
__device__ void wait_for_group_tiles() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
#endif
}

/// a * b + c of two pairs of 16-bit floats, rounded once.
template <typename T>
__device__ uint32_t fused_pairs(uint32_t a, uint32_t b, uint32_t c);

template <>
inline __device__ uint32_t fused_pairs<__nv_bfloat16>(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t found;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(found) : "r"(a), "r"(b), "r"(c));
  return found;
}

template <>
inline __device__ uint32_t fused_pairs<__half>(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t found;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(found) : "r"(a), "r"(b), "r"(c));
  return found;
}

/// A matrix in memory of which `copy_box` copies parts; the driver encodes it.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

/// Begins to copy a part of a matrix, of the size that the map says, from a column and a row on, to
/// lines of shared memory as `multiply_group_tile` reads them. What is beyond the matrix is zeros,
/// and arrives as well.
inline __device__ void copy_box(void* to, const TensorMap& map, int column, int row,
                                Arrivals* arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(shared_address(to)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(arrivals))
      : "memory");
#endif
}

/// Shared memory of the size that the launch gives, as lines for `multiply_group_tile`.
inline __device__ char* launched_lines() {
  extern __shared__ __align__(1024) char lines[];
  return lines;
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

/// A barrier of all threads of a cluster: they have read what they want of each other's shared
/// memory.
inline __device__ void leave_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
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

/// What is in the same place in the shared memory of another block of the cluster.
inline __device__ float4 load_of_block(const float4* own, int rank) {
  float4 found{};
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}"
      : "=f"(found.x), "=f"(found.y), "=f"(found.z), "=f"(found.w)
      : "r"(shared_address(own)), "r"(rank)
      : "memory");
#endif
  return found;
}

/// Two tiles of 8 x 8 of 16-bit floats, each lane with a pair of each as `multiply_tile` has them,
/// to shared memory, where columns become lines of 16 bytes: lane i has the place of column i % 8
/// of tile i / 8 % 2.
inline __device__ void store_columns(void* to, uint32_t pair0, uint32_t pair1) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(to)),
      "r"(pair0), "r"(pair1)
      : "memory");
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
