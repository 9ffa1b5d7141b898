#pragma once

/// The exponential function of vectors of float32, within a generated kernel.
///
/// Activations and softmax spend most of their time in it. A call for each vector keeps the next
/// one waiting and takes all registers; these are part of the loop instead. They stand for the
/// functions of Sleef that PyTorch's vector headers call, and err by at most 1.02 units in the last
/// place (of all numbers), subnormal results included.
///
/// With n the integer next to x / log(2) and r = x - n log(2), exp(x) is 2^n exp(r), and exp(r) is
/// 1 + r + r^2 q(r). The coefficients of q, of degree 4, were fitted for the least greatest
/// relative error, 4.4e-9.

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))

#include <immintrin.h>

#define AOTIP_EXP_LEAST -104.0f  // of which the exponential is zero
#define AOTIP_EXP_MOST 89.0f     // infinite
#define AOTIP_EXP_BY_LOG2 1.44269504f
#define AOTIP_EXP_LOG2 0x1.63p-1f  // so few bits that its multiples are exact
#define AOTIP_EXP_LOG2_REST -0x1.bd0106p-13f
#define AOTIP_EXP_Q0 0x1.fffffcp-2f
#define AOTIP_EXP_Q1 0x1.55549p-3f
#define AOTIP_EXP_Q2 0x1.5558f4p-5f
#define AOTIP_EXP_Q3 0x1.123a6cp-7f
#define AOTIP_EXP_Q4 0x1.6a2352p-10f

extern "C" {

#if defined(__AVX512F__)
#define Sleef_expf16_u10 aotip_inline_expf16

static inline __m512 aotip_inline_expf16(__m512 x) {
  // Of two numbers of which one is none, the second is taken.
  x = _mm512_max_ps(_mm512_set1_ps(AOTIP_EXP_LEAST), x);
  x = _mm512_min_ps(_mm512_set1_ps(AOTIP_EXP_MOST), x);
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(AOTIP_EXP_BY_LOG2)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(AOTIP_EXP_LOG2), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(AOTIP_EXP_LOG2_REST), r);
  __m512 q = _mm512_set1_ps(AOTIP_EXP_Q4);
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(AOTIP_EXP_Q3));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(AOTIP_EXP_Q2));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(AOTIP_EXP_Q1));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(AOTIP_EXP_Q0));
  const __m512 above_one = _mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r);
  return _mm512_scalef_ps(_mm512_add_ps(above_one, _mm512_set1_ps(1.0f)), n);
}
#endif

#if defined(__AVX2__) && defined(__FMA__)
#define Sleef_expf8_u10 aotip_inline_expf8

static inline __m256 aotip_inline_expf8(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(AOTIP_EXP_LEAST), x);
  x = _mm256_min_ps(_mm256_set1_ps(AOTIP_EXP_MOST), x);
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(AOTIP_EXP_BY_LOG2)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(AOTIP_EXP_LOG2), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(AOTIP_EXP_LOG2_REST), r);
  __m256 q = _mm256_set1_ps(AOTIP_EXP_Q4);
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(AOTIP_EXP_Q3));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(AOTIP_EXP_Q2));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(AOTIP_EXP_Q1));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(AOTIP_EXP_Q0));
  const __m256 above_one = _mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r);
  const __m256 mantissa = _mm256_add_ps(above_one, _mm256_set1_ps(1.0f));
  // 2^n may be no normal number: by halves, of which only the second rounds.
  const __m256i both = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(both, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(both, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(mantissa, _mm256_castsi256_ps(first)),
                       _mm256_castsi256_ps(second));
}
#endif

}  // extern "C"

#undef AOTIP_EXP_LEAST
#undef AOTIP_EXP_MOST
#undef AOTIP_EXP_BY_LOG2
#undef AOTIP_EXP_LOG2
#undef AOTIP_EXP_LOG2_REST
#undef AOTIP_EXP_Q0
#undef AOTIP_EXP_Q1
#undef AOTIP_EXP_Q2
#undef AOTIP_EXP_Q3
#undef AOTIP_EXP_Q4

#endif
