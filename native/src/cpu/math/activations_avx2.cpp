// Activations for the avx2 instruction set; CMake compiles this file with the flags that go with
// it.

#define AOTIP_ISA activations_avx2
#define AOTIP_KERNELS activation_kernels_avx2
#include "cpu/math/activations.inc"
