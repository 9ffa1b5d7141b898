#pragma once

// What kernels of products with small weights share.

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/small_weights.h"

namespace aoti_plugins::cuda {

/// Codes of one lane in one tile, and how they become floats.
template <int BITS>
struct Codes;

template <>
struct Codes<4> {
  static constexpr int kDepth = kWeightTileDepth4;
  static constexpr bool kIsOffset = true;
  static constexpr float kMiddle = 8.0f;

  /// Two weights of a row for each half of a product's depth; `step` is a product of 16.
  template <typename T>
  __device__ static void pairs(const uint4& tile, int step, uint32_t& low, uint32_t& high) {
    const uint32_t word = word_of(tile, step / 2) >> (step % 2 * 8);
    low = masked_xor<0x000f000f>(word, HalfPair<T>::kMagic);
    high = masked_xor<0x000f000f>(word >> 4, HalfPair<T>::kMagic);
  }

  __device__ static float value(const uint4& tile, int part, int i) {
    const uint32_t code = word_of(tile, part) >> (i / 2 * 4 + i % 2 * 16) & 15;
    return static_cast<float>(code) - kMiddle;
  }
};

template <>
struct Codes<8> {
  static constexpr int kDepth = kWeightTileDepth8;
  static constexpr bool kIsOffset = false;
  static constexpr float kMiddle = 0.0f;

  template <typename T>
  __device__ static void pairs(const uint4& tile, int step, uint32_t& low, uint32_t& high) {
    const uint32_t word = word_of(tile, step) ^ 0x80808080;
    low = HalfPair<T>::of(signed_code(word, 0x7440), signed_code(word, 0x7441));
    high = HalfPair<T>::of(signed_code(word, 0x7442), signed_code(word, 0x7443));
  }

  /// A byte, which is 128 too large, behind the high bits of 2^23.
  __device__ static float signed_code(uint32_t word, uint32_t byte) {
    return __uint_as_float(__byte_perm(word, 0x4b000000, byte)) - 8388736.0f;
  }

  __device__ static float value(const uint4& tile, int part, int i) {
    const uint32_t code = word_of(tile, part * 2 + i / 4) >> (i % 4 * 8);
    return static_cast<float>(static_cast<int8_t>(code & 0xff));
  }
};

template <typename T>
__device__ float load_scale(const void* from, uint32_t i, uint32_t is_float) {
  const char* at = static_cast<const char*>(from) + (i << (1 + is_float));
  return is_float ? *reinterpret_cast<const float*>(at)
                  : static_cast<float>(*reinterpret_cast<const T*>(at));
}

}  // namespace aoti_plugins::cuda
