// Activations for the baseline instruction set; CMake compiles this file with the flags that go
// with it.

#define AOTIP_ISA activations_baseline
#define AOTIP_KERNELS activation_kernels_baseline
#include "cpu/math/activations.inc"
