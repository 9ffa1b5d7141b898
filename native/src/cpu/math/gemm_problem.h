#pragma once

#include <cstdint>

namespace aoti_plugins::cpu {

/// c [m, n] = beta * s + alpha * (a [m, k] @ b [k, n]), every matrix with any strides (in
/// elements).
///
/// `s` is not read when `beta` is 0; strides of 0 broadcast it. `c` overlaps none of the others,
/// except that `s` may be `c`.
template <typename T>
struct GemmProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const T* a = nullptr;
  int64_t a_row = 0;
  int64_t a_col = 0;
  const T* b = nullptr;
  int64_t b_row = 0;
  int64_t b_col = 0;
  T* c = nullptr;
  int64_t c_row = 0;
  int64_t c_col = 0;
  const T* s = nullptr;
  int64_t s_row = 0;
  int64_t s_col = 0;
  T alpha = 1;
  T beta = 0;

  /// The same product as c^T = b^T @ a^T.
  GemmProblem transposed() const {
    GemmProblem t;
    t.m = n;
    t.n = m;
    t.k = k;
    t.a = b;
    t.a_row = b_col;
    t.a_col = b_row;
    t.b = a;
    t.b_row = a_col;
    t.b_col = a_row;
    t.c = c;
    t.c_row = c_col;
    t.c_col = c_row;
    t.s = s;
    t.s_row = s_col;
    t.s_col = s_row;
    t.alpha = alpha;
    t.beta = beta;
    return t;
  }
};

/// The kernels of one instruction set. They expect c_col == 1, and of `a` and of `b` one stride
/// that is 1.
struct GemmKernels {
  const char* isa;
  void (*f32)(const GemmProblem<float>& problem);
  void (*f64)(const GemmProblem<double>& problem);
};

GemmKernels gemm_kernels_baseline() noexcept;
#if defined(__x86_64__)
GemmKernels gemm_kernels_avx2() noexcept;
GemmKernels gemm_kernels_avx512() noexcept;
#endif

}  // namespace aoti_plugins::cpu
