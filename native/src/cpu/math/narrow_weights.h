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
};

/// A weight [n, k] of less than 32 bits. Of codes, row j stands for `(code - middle) * scale +
/// added` with one number of each for every group.
struct NarrowWeight {
  NarrowForm form = NarrowForm::kBfloat16;
  int64_t n = 0;
  int64_t k = 0;
  const void* data = nullptr;     ///< rows without gaps
  int64_t groups = 1;             ///< of a row; all have equally many codes, a multiple of 32
  const float* scale = nullptr;   ///< [n, groups], of codes
  const float* offset = nullptr;  ///< [n, groups], of codes: added - middle * scale
};

/// Some rows times the transpose of a weight.
struct NarrowProblem {
  NarrowWeight weight;
  int64_t m = 0;
  const float* x = nullptr;     ///< [m, k]
  const float* sums = nullptr;  ///< [m, groups], of the elements of x in each group; of codes
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
