#pragma once

// Words of two 16-bit floats, which is how tensor cores take them.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace aoti_plugins::cuda {

/// Two 16-bit floats of one kind.
template <typename T>
struct HalfPair;

template <>
struct HalfPair<__nv_bfloat16> {
  static constexpr uint32_t kOnes = 0x3f803f80;
  static constexpr uint32_t kMagic = 0x43004300;  ///< 128, whose last bit is worth 1
  static constexpr float kOffset = 128.0f;

  __device__ static uint32_t of(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }

  __device__ static float2 floats(uint32_t pair) {
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
  }
};

template <>
struct HalfPair<__half> {
  static constexpr uint32_t kOnes = 0x3c003c00;
  static constexpr uint32_t kMagic = 0x64006400;  ///< 1024
  static constexpr float kOffset = 1024.0f;

  __device__ static uint32_t of(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }

  __device__ static float2 floats(uint32_t pair) {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
  }
};

inline __device__ uint32_t word_of(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

}  // namespace aoti_plugins::cuda
