#pragma once

/// What kernels/ptx.cuh has, on the host. Included before the kernels, after emulated_device.h.

#include <vector_functions.h>
#include <vector_types.h>

#include <algorithm>
#include <cmath>

#include "emulated_device.h"

using std::max;
using std::min;

inline float __expf(float x) {
  return std::exp(x);
}

inline float __fdividef(float x, float y) {
  return x / y;
}

inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}

template <typename T>
T __shfl_sync(unsigned int, T value, unsigned int lane) {
  return fake_cuda::lane_value(value, lane);
}

inline float __uint_as_float(unsigned int bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Four of the eight bytes of two words, one for each of the lowest four digits of `selector`.
inline unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector) {
  const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
  unsigned int found = 0;
  for (unsigned int i = 0; i < 4; ++i) {
    found |= static_cast<unsigned int>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  }
  return found;
}

namespace aoti_plugins::cuda {

/// The 16-bit float in one half of a lane's word.
template <typename T>
float half_of(uint64_t words, unsigned int i) {
  const uint16_t bits = static_cast<uint16_t>(words >> 16 * i);
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<float>(value);
}

/// The tile product of a warp: every lane gives its part and computes four sums.
template <typename T>
void multiply_tile(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  uint64_t left[2][fake_cuda::kLanes];
  uint64_t right[fake_cuda::kLanes];
  // Words 0 and 1 of a lane are of rows lane / 4 and lane / 4 + 8, words 2 and 3 further along k.
  std::copy_n(fake_cuda::meet_lanes(a[0] | static_cast<uint64_t>(a[2]) << 32), fake_cuda::kLanes,
              left[0]);
  std::copy_n(fake_cuda::meet_lanes(a[1] | static_cast<uint64_t>(a[3]) << 32), fake_cuda::kLanes,
              left[1]);
  std::copy_n(fake_cuda::meet_lanes(b0 | static_cast<uint64_t>(b1) << 32), fake_cuda::kLanes,
              right);
  const unsigned int lane = threadIdx.x % fake_cuda::kLanes;
  for (unsigned int i = 0; i < 4; ++i) {
    const unsigned int column = lane % 4 * 2 + i % 2;
    for (unsigned int k = 0; k < 16; ++k) {
      const unsigned int quarter = k % 8 / 2;
      const unsigned int half = k / 8 * 2 + k % 2;
      sum[i] += half_of<T>(left[i / 2][lane / 4 * 4 + quarter], half) *
                half_of<T>(right[column * 4 + quarter], half);
    }
  }
}

template <uint32_t MASK>
uint32_t masked_xor(uint32_t bits, uint32_t others) {
  return (bits & MASK) ^ others;
}

inline void* launched_memory() {
  return fake_cuda::block_memory();
}

inline uint4 load_once(const uint4* from) {
  return *from;
}

inline void prefetch_bytes(const void*, uint32_t) {}
inline void prefetch_line(const void*) {}

inline void wait_for_inputs() {}
inline void let_next_begin() {}

inline void begin_cluster() {}

inline void wait_for_cluster() {
  fake_cuda::meet_cluster();
}

inline void meet_cluster() {
  fake_cuda::meet_cluster();
}

inline float* shared_of_block(float* own, int rank) {
  char* const there = fake_cuda::block_memory(static_cast<unsigned int>(rank));
  return reinterpret_cast<float*>(there +
                                  (reinterpret_cast<char*>(own) - fake_cuda::block_memory()));
}

}  // namespace aoti_plugins::cuda
