// All kernels, as one translation unit: one image is loaded, at once and once per GPU.

#include "cuda/kernels/scale.cu"
#include "cuda/kernels/scan.cu"
#include "cuda/kernels/scatter.cu"
#include "cuda/kernels/sort.cu"
#include "cuda/kernels/strided.cu"
