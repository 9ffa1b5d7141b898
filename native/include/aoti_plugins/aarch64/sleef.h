#pragma once

/// The vector math functions that PyTorch's headers call on Arm machines.
///
/// PyTorch's own `sleef.h` is that of the machine which it was built for, and a program may be made
/// on another one. Blobs for Arm machines find this folder first. The functions are those of
/// src/cpu/math/vector_math_neon.cpp.

#include <arm_neon.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AOTIP_OF_ONE(name, accuracy)                   \
  float32x4_t Sleef_##name##f4##accuracy(float32x4_t); \
  float64x2_t Sleef_##name##d2##accuracy(float64x2_t);
#define AOTIP_OF_TWO(name, accuracy)                                \
  float32x4_t Sleef_##name##f4##accuracy(float32x4_t, float32x4_t); \
  float64x2_t Sleef_##name##d2##accuracy(float64x2_t, float64x2_t);

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
AOTIP_OF_TWO(atan2, _u10)
AOTIP_OF_TWO(copysign, )
AOTIP_OF_TWO(fmod, )
AOTIP_OF_TWO(hypot, _u05)
AOTIP_OF_TWO(nextafter, )
AOTIP_OF_TWO(pow, _u10)

#undef AOTIP_OF_ONE
#undef AOTIP_OF_TWO

#ifdef __cplusplus
}  // extern "C"
#endif
