#pragma once

/// The kernel sources, embedded by CMake: kernels/<name>.metal becomes metal_<name>.

#include "mps/driver/kernel.h"

namespace aoti_plugins::mps {

extern const MetalSource metal_attention_rows;
extern const MetalSource metal_attention_tiled;
extern const MetalSource metal_conv_direct;
extern const MetalSource metal_copy;
extern const MetalSource metal_fft;
extern const MetalSource metal_gemm;
extern const MetalSource metal_gemm_integer;
extern const MetalSource metal_gemm_rows;
extern const MetalSource metal_gguf_linear;
extern const MetalSource metal_index;
extern const MetalSource metal_prelude;
extern const MetalSource metal_recurrent;
extern const MetalSource metal_scan;
extern const MetalSource metal_scatter;
extern const MetalSource metal_small_linear_rows;
extern const MetalSource metal_sort;

}  // namespace aoti_plugins::mps
