#pragma once

/// The vector math functions that PyTorch's headers call on Arm machines.
///
/// PyTorch's own `sleef.h` is that of the machine which it was built for, and a program may be made
/// on another one. Blobs for Arm machines find this folder first. The functions are those of
/// src/cpu/math/vector_math_neon.cpp, of vectors of 128 bits. Code for vectors of 256 bits (SVE)
/// calls them for one half after the other.

#include <arm_neon.h>

#ifdef CPU_CAPABILITY_SVE256
#include <arm_sve.h>

#define AOTIP_HALVES_OF_ONE(name, vector, number, load, store, half) \
  static inline vector name(vector x) {                              \
    constexpr int kHalf = 16 / sizeof(number);                       \
    number of_x[2 * kHalf];                                          \
    svst1(svptrue_b8(), of_x, x);                                    \
    for (int i = 0; i < 2; ++i) {                                    \
      store(of_x + i * kHalf, half(load(of_x + i * kHalf)));         \
    }                                                                \
    return svld1(svptrue_b8(), of_x);                                \
  }
#define AOTIP_HALVES_OF_TWO(name, vector, number, load, store, half)            \
  static inline vector name(vector x, vector y) {                               \
    constexpr int kHalf = 16 / sizeof(number);                                  \
    number of_x[2 * kHalf];                                                     \
    number of_y[2 * kHalf];                                                     \
    svst1(svptrue_b8(), of_x, x);                                               \
    svst1(svptrue_b8(), of_y, y);                                               \
    for (int i = 0; i < 2; ++i) {                                               \
      const auto result = half(load(of_x + i * kHalf), load(of_y + i * kHalf)); \
      store(of_x + i * kHalf, result);                                          \
    }                                                                           \
    return svld1(svptrue_b8(), of_x);                                           \
  }
#else
#define AOTIP_HALVES_OF_ONE(name, vector, number, load, store, half)
#define AOTIP_HALVES_OF_TWO(name, vector, number, load, store, half)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define AOTIP_OF_ONE(name, accuracy)                                                              \
  float32x4_t Sleef_##name##f4##accuracy(float32x4_t);                                            \
  float64x2_t Sleef_##name##d2##accuracy(float64x2_t);                                            \
  AOTIP_HALVES_OF_ONE(Sleef_##name##fx##accuracy##sve, svfloat32_t, float, vld1q_f32, vst1q_f32,  \
                      Sleef_##name##f4##accuracy)                                                 \
  AOTIP_HALVES_OF_ONE(Sleef_##name##dx##accuracy##sve, svfloat64_t, double, vld1q_f64, vst1q_f64, \
                      Sleef_##name##d2##accuracy)
// The names of functions that are exact end in nothing, and in _sve.
#define AOTIP_OF_TWO(name, accuracy, of_sve)                                                    \
  float32x4_t Sleef_##name##f4##accuracy(float32x4_t, float32x4_t);                             \
  float64x2_t Sleef_##name##d2##accuracy(float64x2_t, float64x2_t);                             \
  AOTIP_HALVES_OF_TWO(Sleef_##name##fx##of_sve##sve, svfloat32_t, float, vld1q_f32, vst1q_f32,  \
                      Sleef_##name##f4##accuracy)                                               \
  AOTIP_HALVES_OF_TWO(Sleef_##name##dx##of_sve##sve, svfloat64_t, double, vld1q_f64, vst1q_f64, \
                      Sleef_##name##d2##accuracy)

AOTIP_OF_ONE(acos, _u10)
AOTIP_OF_ONE(acosh, _u10)
AOTIP_OF_ONE(asin, _u10)
AOTIP_OF_ONE(asinh, _u10)
AOTIP_OF_ONE(atan, _u10)
AOTIP_OF_ONE(atanh, _u10)
AOTIP_OF_ONE(cos, _u10)
AOTIP_OF_ONE(cos, _u35)
AOTIP_OF_ONE(cosh, _u10)
AOTIP_OF_ONE(erf, _u10)
AOTIP_OF_ONE(erfc, _u15)
AOTIP_OF_ONE(exp, _u10)
AOTIP_OF_ONE(exp2, _u10)
AOTIP_OF_ONE(expm1, _u10)
AOTIP_OF_ONE(lgamma, _u10)
AOTIP_OF_ONE(log, _u10)
AOTIP_OF_ONE(log10, _u10)
AOTIP_OF_ONE(log1p, _u10)
AOTIP_OF_ONE(log2, _u10)
AOTIP_OF_ONE(sin, _u10)
AOTIP_OF_ONE(sin, _u35)
AOTIP_OF_ONE(sinh, _u10)
AOTIP_OF_ONE(tan, _u10)
AOTIP_OF_ONE(tanh, _u10)
AOTIP_OF_TWO(atan2, _u10, _u10)
AOTIP_OF_TWO(copysign, , _)
AOTIP_OF_TWO(fmod, , _)
AOTIP_OF_TWO(hypot, _u05, _u05)
AOTIP_OF_TWO(nextafter, , _)
AOTIP_OF_TWO(pow, _u10, _u10)

#undef AOTIP_OF_ONE
#undef AOTIP_OF_TWO
#undef AOTIP_HALVES_OF_ONE
#undef AOTIP_HALVES_OF_TWO

#ifdef __cplusplus
}  // extern "C"
#endif
