#pragma once

#include <cstdint>

namespace aoti_plugins::cpu {

/// How the numbers of a weight are stored.
enum class NarrowForm {
  kHalf,      ///< float16
  kBfloat16,  ///< bfloat16
  kInt8,      ///< codes of 8 bits, in groups
  kInt4,      ///< codes of 4 bits: a byte has one of the first half of its group, and in its upper
              ///< bits one of the second half
  kQ4K,       ///< blocks of 256 weights as GGUF files have them, of llama.cpp's q4_k
  kQ5K,       ///< likewise q5_k
  kQ6K,       ///< likewise q6_k
  kE4M3,      ///< floats of 8 bits: a sign, 4 bits of an exponent, 3 of a fraction; no infinity
  kE5M2,      ///< likewise 5 and 2 bits
  kE2M1,      ///< floats of 4 bits, 32 in 16 bytes: the lower bits have the first 16
};

/// Weights of a block, in the forms that have blocks.
inline constexpr int64_t kNarrowBlock = 256;

/// Bytes of a block; 0 for forms without.
constexpr int64_t block_nbytes(NarrowForm form) {
  return form == NarrowForm::kQ4K   ? 144
         : form == NarrowForm::kQ5K ? 176
         : form == NarrowForm::kQ6K ? 210
                                    : 0;
}

/// Whether codes are multiplied before something is added to them: kernels want the sums of what
/// they are multiplied with, by group.
constexpr bool wants_sums(NarrowForm form) {
  return form == NarrowForm::kInt8 || form == NarrowForm::kInt4 || form == NarrowForm::kQ4K ||
         form == NarrowForm::kQ5K;
}

/// Floats of 8 and 4 bits lie next to each other in so many: rows have a multiple of it.
inline constexpr int64_t kNarrowPiece = 32;

/// A weight [n, k] of less than 32 bits. Of codes, row j stands for `(code - middle) * scale +
/// added` with one number of each for every group. Blocks hold theirs. Of floats of 8 and 4 bits, a
/// row stands for `float * scale * whole`; groups have 16 of them or a multiple of 32.
struct NarrowWeight {
  NarrowForm form = NarrowForm::kBfloat16;
  int64_t n = 0;
  int64_t k = 0;
  const void* data = nullptr;  ///< rows without gaps
  int64_t groups = 1;  ///< of a row; all have equally many codes, a multiple of 32: of blocks 32
  const float* scale = nullptr;          ///< [n, groups], of codes and floats
  const float* offset = nullptr;         ///< [n, groups], of codes: added - middle * scale
  const uint8_t* scale_bits = nullptr;   ///< [n, groups], of floats, in place of `scale`
  const float* scale_of_bits = nullptr;  ///< [256], what these stand for
  float whole = 1;                       ///< of floats, what all are multiplied by
};

/// Some rows times the transpose of a weight.
struct NarrowProblem {
  NarrowWeight weight;
  int64_t m = 0;
  const float* x = nullptr;     ///< [m, k]
  const float* sums = nullptr;  ///< [m, groups], of the elements of x in each group; see wants_sums
  float* out = nullptr;         ///< [m, n]
};

/// The kernels of one instruction set.
struct NarrowKernels {
  /// Columns `begin` to `end` of the result.
  void (*multiply)(const NarrowProblem& problem, int64_t begin, int64_t end);
  /// Rows `begin` to `end` of a weight as floats, [end - begin, k].
  void (*widen)(const NarrowWeight& weight, int64_t begin, int64_t end, float* to);
};

NarrowKernels narrow_kernels_baseline() noexcept;
#if defined(__x86_64__)
NarrowKernels narrow_kernels_avx2() noexcept;
NarrowKernels narrow_kernels_avx512() noexcept;
#endif

}  // namespace aoti_plugins::cpu
