#pragma once

/// The C shims of the operators that the MPS delegate's library provides with kernels of its own,
/// with PyTorch's names and signatures. shim.h and mps_shim.h have the conventions. All tensors are
/// on mps.

#include <aoti_plugins/shim.h>

extern "C" {

// Matrix products: `self [m, k]`, `mat2 [k, n]`, `out [m, n]`, with a batch in front for bmm; any
// strides, one dtype of float32, float16, bfloat16 (all accumulate in float32) or an integer, which
// wraps around. An error leaves `out` untouched.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                  AtenTensorHandle mat2);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                   AtenTensorHandle mat2);

/// out = beta * self + alpha * (mat1 @ mat2); `self` broadcasts; with beta 0 its values do not
/// matter.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                     AtenTensorHandle mat1, AtenTensorHandle mat2,
                                                     double beta, double alpha);

AOTIP_EXPORT AOTITorchError aoti_torch_mps_baddbmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                       AtenTensorHandle batch1,
                                                       AtenTensorHandle batch2, double beta,
                                                       double alpha);

/// One to three spatial dims; float32, float16, bfloat16. A new tensor in the layout that PyTorch
/// would choose.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
    int64_t dilation_len_, int32_t transposed, const int64_t* output_padding,
    int64_t output_padding_len_, int64_t groups, AtenTensorHandle* ret0);

// Attention of `query [..., heads, rows, d]`; float32, float16, bfloat16; a mask is bool or a float
// dtype; no dropout. The second result, the weights of the keys, is empty.
AOTIP_EXPORT AOTITorchError aoti_torch_mps__scaled_dot_product_attention_math_for_mps(
    AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value,
    AtenTensorHandle* attn_mask, double dropout_p, int32_t is_causal,
    AtenTensorHandle* dropout_mask, double* scale, AtenTensorHandle* ret0, AtenTensorHandle* ret1);
AOTIP_EXPORT AOTITorchError aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2(
    AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value,
    AtenTensorHandle* attn_mask, double dropout_p, int32_t is_causal,
    AtenTensorHandle* dropout_mask, double* scale, int32_t enable_gqa, AtenTensorHandle* ret0,
    AtenTensorHandle* ret1);

/// Running sums and products; a null `dtype` means int64 for integers and bool.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_cumsum(AtenTensorHandle self, int64_t dim,
                                                  int32_t* dtype, AtenTensorHandle* ret0);

AOTIP_EXPORT AOTITorchError aoti_torch_mps_cumprod(AtenTensorHandle self, int64_t dim,
                                                   int32_t* dtype, AtenTensorHandle* ret0);

/// Values in order and their places, always stable; NaN counts as the largest.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_sort(AtenTensorHandle self, int64_t dim,
                                                int32_t descending, AtenTensorHandle* ret0,
                                                AtenTensorHandle* ret1);

AOTIP_EXPORT AOTITorchError aoti_torch_mps_sort_stable(AtenTensorHandle self, int32_t* stable,
                                                       int64_t dim, int32_t descending,
                                                       AtenTensorHandle* ret0,
                                                       AtenTensorHandle* ret1);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_topk(AtenTensorHandle self, int64_t k, int64_t dim,
                                                int32_t largest, int32_t sorted,
                                                AtenTensorHandle* ret0, AtenTensorHandle* ret1);

// Elements of `src` go where `index` (int64) says, in the order of the index; the last one that is
// written to a place stays. Numbers out of range are skipped.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_scatter_src_out(AtenTensorHandle out,
                                                           AtenTensorHandle self, int64_t dim,
                                                           AtenTensorHandle index,
                                                           AtenTensorHandle src);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_scatter_value_out(AtenTensorHandle out,
                                                             AtenTensorHandle self, int64_t dim,
                                                             AtenTensorHandle index, double value);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_scatter_reduce_two_out(
    AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
    AtenTensorHandle src, const char* reduce, int32_t include_self);

/// Fourier transforms of float32 and of complex64 along the last dims of a row-major tensor; the
/// result is row-major.
AOTIP_EXPORT AOTITorchError aoti_torch_mps__fft_r2c(AtenTensorHandle self, const int64_t* dim,
                                                    int64_t dim_len_, int64_t normalization,
                                                    int32_t onesided, AtenTensorHandle* ret0);
AOTIP_EXPORT AOTITorchError aoti_torch_mps__fft_c2c(AtenTensorHandle self, const int64_t* dim,
                                                    int64_t dim_len_, int64_t normalization,
                                                    int32_t forward, AtenTensorHandle* ret0);

/// Random integers from `low` to `high - 1`, of the sequence that the backend's option `seed`
/// starts. `size` is that of `out`, which is contiguous, of an integer or floating-point dtype.
AOTIP_EXPORT AOTITorchError aoti_torch_mps_randint_low_out(AtenTensorHandle out, int64_t low,
                                                           int64_t high, const int64_t* size,
                                                           int64_t size_len_);

AOTIP_EXPORT AOTITorchError aoti_torch_mps_view_dtype(AtenTensorHandle self, int32_t dtype,
                                                      AtenTensorHandle* ret0);
AOTIP_EXPORT AOTITorchError aoti_torch_mps_view_as_real(AtenTensorHandle self,
                                                        AtenTensorHandle* ret0);

}  // extern "C"
