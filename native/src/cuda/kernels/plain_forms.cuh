#pragma once

// Forms of weights of 4 to 8 bits in planes: how codes become 16-bit floats for tensor cores, and
// codes of scales and zeros floats. A code becomes the low bits of a float whose high bits are
// those of 128. Each form has
//
//   Codes          what a lane has of 32 weights of a row, a piece
//   kDigits        products of tensor cores for a code
//   kOffset        what a code is too large by
//   kHalves        groups of a piece, where they are smallest
//   kIsRagged      whether a row may end within 256 weights
//   kHasZero, kHasSteps, kScaleNbytes      its scales and zeros
//   row(), load(), ordered(), pairs()      pieces as factors of tensor cores, and the order of x
//   scale(), zero()                        of a piece, from the bytes that were loaded
//   code(), scale_at(), zero_at()          of one weight, for those who unpack

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/plain_weights.h"
#include "cuda/kernels/ptx.cuh"

namespace aoti_plugins::cuda {

inline constexpr uint32_t kPlainMagic = HalfPair<__nv_bfloat16>::kMagic;

/// A byte of a word behind the high bits of 2^23.
inline __device__ float byte_behind(uint32_t word, int byte) {
  return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + byte));
}

inline __device__ float half_at(const void* from, int64_t i) {
  return __half2float(static_cast<const __half*>(from)[i]);
}

template <typename T>
__device__ T plain_at(const void* from, int64_t offset) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(from) + offset);
}

inline __device__ uint4 load_codes(const void* from, uint32_t offset) {
  return load_once(reinterpret_cast<const uint4*>(static_cast<const char*>(from) + offset));
}

/// Where a row of the weight begins in its planes, in bytes.
struct PlainRow {
  uint32_t low;
  uint32_t high;
};

/// The lowest four bits of 32 weights, two in a byte, the even one low. Pairs are four weights
/// apart, and so is the order of x.
struct LowBits {
  __device__ static uint4 load(const PlainProduct& p, const PlainRow& row, int piece) {
    return load_codes(p.low, row.low + piece * 16);
  }

  /// Eight elements of x in the order of the pairs.
  __device__ static uint4 ordered(const uint4& eight) {
    return make_uint4(__byte_perm(eight.x, eight.z, 0x5410), __byte_perm(eight.x, eight.z, 0x7632),
                      __byte_perm(eight.y, eight.w, 0x5410), __byte_perm(eight.y, eight.w, 0x7632));
  }

  /// Two pairs; `step` is a product of 16. What is above four bits is in `high`, and the magic.
  __device__ static void pairs(const uint4& bits, int step, uint32_t& low, uint32_t& high) {
    const uint32_t word = word_of(bits, step / 2) >> (step % 2 * 8);
    low = masked_xor<0x000f000f>(word, low);
    high = masked_xor<0x000f000f>(word >> 4, high);
  }

  __device__ static uint32_t code(const PlainProduct& p, int64_t row, int i) {
    return plain_at<uint8_t>(p.low, row * (p.k / 2) + i / 2) >> (i % 2 * 4) & 15;
  }
};

/// Scales and zeros are codes times a step.
struct SteppedZeros {
  static constexpr int kHalves = 1;
  static constexpr bool kHasZero = true;
  static constexpr bool kHasSteps = true;
  static constexpr int kScaleNbytes = 1;

  /// Exact: a code behind 2^23, times the step, less 2^23 times the step.
  __device__ static float scale(const uint32_t (&words)[2], int piece, float step) {
    return fmaf(byte_behind(words[0], piece), step, -8388608.0f * step);
  }

  __device__ static float zero(uint32_t word, int piece, float step) {
    return fmaf(byte_behind(word, piece), step, -8388608.0f * step);
  }

  __device__ static float scale_at(const PlainProduct& p, int64_t group, int64_t step) {
    return static_cast<float>(plain_at<uint8_t>(p.scale, group)) * half_at(p.scale_step, step);
  }

  __device__ static float zero_at(const PlainProduct& p, int64_t group, int64_t step) {
    return static_cast<float>(plain_at<uint8_t>(p.zero, group)) * half_at(p.zero_step, step);
  }
};

struct Int4 : SteppedZeros {
  using Codes = uint4;
  static constexpr int kDigits = 1;
  static constexpr bool kIsRagged = false;
  static constexpr float kOffset = 128.0f;

  __device__ static PlainRow row(const PlainProduct& p, uint32_t row) {
    return {row * (p.k / 2), 0};
  }

  __device__ static Codes load(const PlainProduct& p, const PlainRow& row, int piece) {
    return LowBits::load(p, row, piece);
  }

  __device__ static uint4 ordered(const uint4& eight) { return LowBits::ordered(eight); }

  __device__ static void pairs(const Codes& codes, int step, int, uint32_t& low, uint32_t& high) {
    low = kPlainMagic;
    high = kPlainMagic;
    LowBits::pairs(codes, step, low, high);
  }

  __device__ static float code(const PlainProduct& p, int64_t row, int i) {
    return static_cast<float>(LowBits::code(p, row, i));
  }
};

/// The fifth bits of eight weights are a byte: those of the even ones, then those of the odd ones.
struct Int5 : SteppedZeros {
  struct Codes {
    uint4 low;
    uint32_t high;
  };
  static constexpr int kDigits = 1;
  static constexpr bool kIsRagged = false;
  static constexpr float kOffset = 128.0f;

  __device__ static PlainRow row(const PlainProduct& p, uint32_t row) {
    return {row * (p.k / 2), row * (p.k / 8)};
  }

  __device__ static Codes load(const PlainProduct& p, const PlainRow& row, int piece) {
    return {LowBits::load(p, row, piece), plain_at<uint32_t>(p.high, row.high + piece * 4)};
  }

  __device__ static uint4 ordered(const uint4& eight) { return LowBits::ordered(eight); }

  __device__ static void pairs(const Codes& codes, int step, int, uint32_t& low, uint32_t& high) {
    const uint32_t byte = __byte_perm(codes.high, 0, 0x4440 + step / 2);
    const uint32_t bits = byte * 0x4001;  // those of a pair, two apart in the byte, are 16 apart
    low = masked_xor<0x00100010>(step % 2 == 0 ? bits << 4 : bits << 3, kPlainMagic);
    high = masked_xor<0x00100010>(step % 2 == 0 ? bits : bits >> 1, kPlainMagic);
    LowBits::pairs(codes.low, step, low, high);
  }

  __device__ static float code(const PlainProduct& p, int64_t row, int i) {
    const uint32_t byte = plain_at<uint8_t>(p.high, row * (p.k / 8) + i / 8);
    const uint32_t bit = byte >> (i % 8 / 2 + i % 2 * 4) & 1;
    return static_cast<float>(LowBits::code(p, row, i) | bit << 4);
  }
};

/// The highest two bits of 32 weights: four bytes for the even ones, then four for the odd ones, each
/// with those of four weights. Groups may be of 16; a code is 32 too large.
struct Int6 {
  struct Codes {
    uint4 low;
    uint2 high;
  };
  static constexpr int kDigits = 1;
  static constexpr bool kIsRagged = false;
  static constexpr float kOffset = 128.0f + 32.0f;
  static constexpr int kHalves = 2;
  static constexpr bool kHasZero = false;
  static constexpr bool kHasSteps = true;
  static constexpr int kScaleNbytes = 1;

  __device__ static PlainRow row(const PlainProduct& p, uint32_t row) {
    return {row * (p.k / 2), row * (p.k / 4)};
  }

  __device__ static Codes load(const PlainProduct& p, const PlainRow& row, int piece) {
    return {LowBits::load(p, row, piece), plain_at<uint2>(p.high, row.high + piece * 8)};
  }

  __device__ static uint4 ordered(const uint4& eight) { return LowBits::ordered(eight); }

  __device__ static void pairs(const Codes& codes, int step, int, uint32_t& low, uint32_t& high) {
    low = of_pair(codes.high.x, step);
    high = of_pair(codes.high.y, step);
    LowBits::pairs(codes.low, step, low, high);
  }

  /// The two bits of each weight of a pair, four apart in a byte, behind the low bits' places.
  __device__ static uint32_t of_pair(uint32_t bytes, int step) {
    const uint32_t bits = __byte_perm(bytes, 0, 0x4440 + step / 2) * 0x1001;
    return masked_xor<0x00300030>(step % 2 == 0 ? bits << 4 : bits << 2, kPlainMagic);
  }

  __device__ static float scale(const uint32_t (&words)[2], int place, float step) {
    return (byte_behind(words[place / 4] ^ 0x80808080, place % 4) - 8388736.0f) * step;
  }

  __device__ static float zero(uint32_t, int, float) { return 0.0f; }

  __device__ static float code(const PlainProduct& p, int64_t row, int i) {
    const int64_t piece = row * (p.k / 4) + i / 32 * 8 + i % 32 / 8;
    const uint32_t byte = plain_at<uint8_t>(p.high, piece + i % 2 * 4);
    return static_cast<float>(LowBits::code(p, row, i) | (byte >> (i % 8 / 2 * 2) & 3) << 4) -
           32.0f;
  }

  __device__ static float scale_at(const PlainProduct& p, int64_t group, int64_t step) {
    return static_cast<float>(plain_at<int8_t>(p.scale, group)) * half_at(p.scale_step, step);
  }

  __device__ static float zero_at(const PlainProduct&, int64_t, int64_t) { return 0.0f; }
};

/// A code and 128 are 16 times one digit and another, each a product of its own. Two bytes of a
/// word that are not neighbours make a pair.
struct Int8 {
  struct Codes {
    uint4 half[2];
  };
  static constexpr int kDigits = 2;
  static constexpr bool kIsRagged = true;
  static constexpr float kOffset = 128.0f * 17.0f + 128.0f;
  static constexpr int kHalves = 1;
  static constexpr bool kHasZero = true;
  static constexpr bool kHasSteps = false;
  static constexpr int kScaleNbytes = 2;

  __device__ static PlainRow row(const PlainProduct& p, uint32_t row) { return {row * p.k, 0}; }

  __device__ static Codes load(const PlainProduct& p, const PlainRow& row, int piece) {
    const uint32_t at = row.low + piece * 32;
    return {{load_codes(p.low, at), load_codes(p.low, at + 16)}};
  }

  __device__ static uint4 ordered(const uint4& eight) {
    return make_uint4(__byte_perm(eight.x, eight.y, 0x5410), __byte_perm(eight.x, eight.y, 0x7632),
                      __byte_perm(eight.z, eight.w, 0x5410), __byte_perm(eight.z, eight.w, 0x7632));
  }

  __device__ static void pairs(const Codes& codes, int step, int digit, uint32_t& low,
                               uint32_t& high) {
    const uint32_t word = word_of(codes.half[step / 4], step % 4) >> (digit * 4);
    const uint32_t magic = kPlainMagic ^ (digit == 0 ? 0 : 0x00080008);
    low = masked_xor<0x000f000f>(word, magic);
    high = masked_xor<0x000f000f>(word >> 8, magic);
  }

  __device__ static float scale(const uint32_t (&words)[2], int piece, float) {
    const uint32_t word = words[piece / 2];
    return __uint_as_float(piece % 2 == 0 ? word << 16 : word & 0xffff0000);
  }

  __device__ static float zero(uint32_t word, int piece, float) {
    return byte_behind(word ^ 0x80808080, piece) - 8388736.0f;
  }

  __device__ static float code(const PlainProduct& p, int64_t row, int i) {
    return static_cast<float>(plain_at<int8_t>(p.low, row * p.k + i));
  }

  __device__ static float scale_at(const PlainProduct& p, int64_t group, int64_t) {
    return static_cast<float>(static_cast<const __nv_bfloat16*>(p.scale)[group]);
  }

  __device__ static float zero_at(const PlainProduct& p, int64_t group, int64_t) {
    return static_cast<float>(plain_at<int8_t>(p.zero, group));
  }
};

}  // namespace aoti_plugins::cuda
