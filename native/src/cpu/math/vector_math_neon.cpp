// Vector math for NEON, which every aarch64 CPU has.

#include <arm_neon.h>

#define AOTIP_ISA vector_math_neon
#include "cpu/math/vector_math.inc"

AOTIP_VECTOR_MATH_FLOAT(f4, float32x4_t, exp_all<float>)
AOTIP_VECTOR_MATH_DOUBLE(d2, float64x2_t)
