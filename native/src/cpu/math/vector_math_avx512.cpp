// Vector math for AVX-512; CMake compiles this file with the flags that go with it.

#include <aoti_plugins/vector_exp.h>
#include <immintrin.h>

#define AOTIP_ISA vector_math_avx512
#include "cpu/math/vector_math.inc"

AOTIP_VECTOR_MATH_FLOAT(f16, __m512, aotip_inline_expf16)
AOTIP_VECTOR_MATH_DOUBLE(d8, __m512d)
