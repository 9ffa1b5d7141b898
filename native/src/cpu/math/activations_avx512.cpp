// Activations for the avx512 instruction set; CMake compiles this file with the flags that go with
// it.

#define AOTIP_ISA activations_avx512
#define AOTIP_KERNELS activation_kernels_avx512
#include "cpu/math/activations.inc"
