// Vector math for AVX2; CMake compiles this file with the flags that go with it.

#include <aoti_plugins/vector_exp.h>
#include <immintrin.h>

#define AOTIP_ISA vector_math_avx2
#include "cpu/math/vector_math.inc"

AOTIP_VECTOR_MATH_FLOAT(f8, __m256, aotip_inline_expf8)
AOTIP_VECTOR_MATH_DOUBLE(d4, __m256d)
