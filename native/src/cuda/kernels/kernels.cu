// All kernels, as one translation unit: one image is loaded, at once and once per GPU.

#include "cuda/kernels/strided.cu"
