// All kernels, as one translation unit: one image is loaded, at once and once per GPU.

#include "cuda/kernels/histogram.cu"
#include "cuda/kernels/one_row.cu"
#include "cuda/kernels/rows.cu"
#include "cuda/kernels/scale.cu"
#include "cuda/kernels/scan.cu"
#include "cuda/kernels/scatter.cu"
#include "cuda/kernels/select.cu"
#include "cuda/kernels/small_weights.cu"
#include "cuda/kernels/sort_block.cu"
#include "cuda/kernels/sort_radix.cu"
#include "cuda/kernels/sort_short.cu"
#include "cuda/kernels/strided.cu"
