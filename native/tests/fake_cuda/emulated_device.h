#pragma once

/// Lets our kernels' sources run on the host: the threads of a block are fibers that take turns at
/// barriers and where the lanes of a warp meet. Blocks run one after the other, those of a cluster
/// together. Included before the sources.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <functional>

#include "emulated_grid.h"

#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#define __noinline__

namespace fake_cuda {

struct Index {
  unsigned int x = 0;
};

constexpr unsigned int kLanes = 32;

/// Ends a thread's turn: it goes on when all others of its block have come to a barrier too. The
/// program ends, with a message, when they never do.
void wait_at_barrier();

/// As `wait_at_barrier`, for the first `count` threads of a block alone.
void wait_at_barrier(unsigned int count);

/// Ends a thread's turn until something is so.
void wait_until(const std::function<bool()>& is_so);

/// Ends the program, with a message, unless something is so.
void check(bool is_so, const char* message);

/// Gives the lanes of this thread's warp a value and returns those of all, by lane, when all have
/// come. They stay until the second next call.
const uint64_t* meet_lanes(uint64_t value);

/// As `wait_at_barrier`, for the threads of all blocks of a cluster.
void meet_cluster();

/// The shared memory that a launch gives this thread's block, or another one of its cluster: as
/// much as a GPU has, whatever the launch asks for.
char* block_memory();
char* block_memory(unsigned int rank);

/// Runs a kernel's body once for each thread of each block.
void run_blocks(const Grid& grid, const std::function<void()>& body);

}  // namespace fake_cuda

extern fake_cuda::Index threadIdx;
extern fake_cuda::Index blockIdx;
extern fake_cuda::Index blockDim;
extern fake_cuda::Index gridDim;

inline void __syncthreads() {
  fake_cuda::wait_at_barrier();
}

namespace fake_cuda {

template <typename T>
T lane_value(T value, unsigned int lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = meet_lanes(bits)[lane];
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace fake_cuda

// What lanes of a warp do together; always all of them.

inline void __syncwarp() {
  (void)fake_cuda::meet_lanes(0);
}

inline unsigned int __ballot_sync(unsigned int, bool vote) {
  const uint64_t* votes = fake_cuda::meet_lanes(vote ? 1 : 0);
  unsigned int lanes = 0;
  for (unsigned int lane = 0; lane < fake_cuda::kLanes; ++lane) {
    lanes |= static_cast<unsigned int>(votes[lane]) << lane;
  }
  return lanes;
}

inline unsigned int __reduce_add_sync(unsigned int, unsigned int value) {
  const uint64_t* values = fake_cuda::meet_lanes(value);
  unsigned int sum = 0;
  for (unsigned int lane = 0; lane < fake_cuda::kLanes; ++lane) {
    sum += static_cast<unsigned int>(values[lane]);
  }
  return sum;
}

template <typename T>
T __shfl_xor_sync(unsigned int, T value, unsigned int reach) {
  return fake_cuda::lane_value(value, threadIdx.x % fake_cuda::kLanes ^ reach);
}

template <typename T>
T __shfl_up_sync(unsigned int, T value, unsigned int reach) {
  const unsigned int lane = threadIdx.x % fake_cuda::kLanes;
  return fake_cuda::lane_value(value, lane >= reach ? lane - reach : lane);
}

inline void __threadfence() {}

inline int __clzll(long long bits) {
  return bits == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(bits));
}

inline int __popc(unsigned int bits) {
  return __builtin_popcount(bits);
}

template <typename T>
T atomicAdd(T* address, T value) {
  const T found = *address;
  *address += value;
  return found;
}

template <typename T>
T atomicOr(T* address, T value) {
  const T found = *address;
  *address |= value;
  return found;
}

template <typename T>
T atomicCAS(T* address, T expected, T desired) {
  const T found = *address;
  *address = found == expected ? desired : found;
  return found;
}
