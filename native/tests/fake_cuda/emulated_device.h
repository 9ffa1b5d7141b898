#pragma once

/// Lets our kernels' sources run on the host: the threads of a block are fibers that take turns at
/// barriers, blocks run one after the other. Included before the sources.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <functional>

#undef __shared__
#define __shared__ static

namespace fake_cuda {

struct Index {
  unsigned int x = 0;
};

/// Ends a thread's turn: it goes on when all others of its block have come to a barrier too.
void wait_at_barrier();

/// Runs a kernel's body once for each thread of each block.
void run_blocks(unsigned int blocks, unsigned int threads, const std::function<void()>& body);

}  // namespace fake_cuda

extern fake_cuda::Index threadIdx;
extern fake_cuda::Index blockIdx;
extern fake_cuda::Index blockDim;
extern fake_cuda::Index gridDim;

inline void __syncthreads() {
  fake_cuda::wait_at_barrier();
}

template <typename T>
T atomicCAS(T* address, T expected, T desired) {
  const T found = *address;
  *address = found == expected ? desired : found;
  return found;
}
