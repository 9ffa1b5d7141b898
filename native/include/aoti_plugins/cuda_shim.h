#pragma once

/// The C shims that the CUDA delegate's library provides beside those of shim.h, with PyTorch's
/// names and signatures. shim.h has the conventions. They work on this thread's current stream,
/// which is the delegate's while its model runs, and do not wait for it unless they say so.
///
/// Not all of them have run on a GPU yet: docs/cuda-runtime.md says which.

#include <aoti_plugins/shim.h>

extern "C" {

struct CUDAGuardOpaque;
using CUDAGuardHandle = CUDAGuardOpaque*;
struct CUDAStreamGuardOpaque;
using CUDAStreamGuardHandle = CUDAStreamGuardOpaque*;

/// Makes a GPU this thread's current one until the guard is deleted.
AOTIP_EXPORT AOTITorchError aoti_torch_create_cuda_guard(int32_t device_index,
                                                         CUDAGuardHandle* ret_guard);
AOTIP_EXPORT AOTITorchError aoti_torch_delete_cuda_guard(CUDAGuardHandle guard);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_guard_set_index(CUDAGuardHandle guard,
                                                            int32_t device_index);
/// Makes a stream (and its GPU) this thread's current one until the guard is deleted.
AOTIP_EXPORT AOTITorchError aoti_torch_create_cuda_stream_guard(void* stream, int32_t device_index,
                                                                CUDAStreamGuardHandle* ret_guard);
AOTIP_EXPORT AOTITorchError aoti_torch_delete_cuda_stream_guard(CUDAStreamGuardHandle guard);
/// Borrowed; null is the default stream.
AOTIP_EXPORT AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index,
                                                               void** ret_stream);
/// Index of this thread's current GPU.
AOTIP_EXPORT AOTITorchError aoti_torch_get_current_device_index(int32_t* ret_device_index);

/// Memory on the current GPU, outside of any pool.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t nbytes,
                                                                        void** ret_ptr);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_caching_allocator_raw_delete(void* ptr);

AOTIP_EXPORT AOTITorchError aoti_torch_cuda_view_dtype(AtenTensorHandle self, int32_t dtype,
                                                       AtenTensorHandle* ret0);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_view_as_real(AtenTensorHandle self,
                                                         AtenTensorHandle* ret0);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_fill__Scalar(AtenTensorHandle self, double value);

// Matrix products over cuBLASLt, which is opened by the first of them. `self [m, k]`, `mat2 [k,
// n]`, `out [m, n]`, with a batch in front for bmm; all on one GPU, one dtype of float32, float64,
// float16, bfloat16. Rows or columns one behind the other are used in place; other strides through
// a copy. float32 is rounded to TF32 only with the
// option allow_tf32, or AOTI_PLUGINS_ALLOW_TF32=1. An error leaves `out`
// untouched.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                   AtenTensorHandle mat2);
/// out = beta * self + alpha * (mat1 @ mat2); `self` broadcasts; with beta 0 its values do not
/// matter.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                      AtenTensorHandle mat1, AtenTensorHandle mat2,
                                                      double beta, double alpha);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                    AtenTensorHandle mat2);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_baddbmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                        AtenTensorHandle batch1,
                                                        AtenTensorHandle batch2, double beta,
                                                        double alpha);
/// The activation of addmm: ReLU, or GELU (tanh) where `use_gelu` is not 0.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda__addmm_activation(AtenTensorHandle self,
                                                              AtenTensorHandle mat1,
                                                              AtenTensorHandle mat2, double beta,
                                                              double alpha, int32_t use_gelu,
                                                              AtenTensorHandle* ret0);
/// int8 matrices, int32 result.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda__int_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                        AtenTensorHandle mat2);

/// float8 matrices (e4m3fn or e5m2), each times float32 factors: one, or one for each row of `self`
/// and each column of `mat2` (cuBLAS 12.9, compute capability 9.0). k and n are multiples of 16.
/// `out` is float32, float16, bfloat16, or float8 with `scale_result`; `bias` [n] is bfloat16 or
/// float16; these and `out_dtype` may be null.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda__scaled_mm_out(
    AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2, AtenTensorHandle scale_a,
    AtenTensorHandle scale_b, AtenTensorHandle* bias, AtenTensorHandle* scale_result,
    int32_t* out_dtype, int32_t use_fast_accum);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda__scaled_mm(
    AtenTensorHandle self, AtenTensorHandle mat2, AtenTensorHandle scale_a,
    AtenTensorHandle scale_b, AtenTensorHandle* bias, AtenTensorHandle* scale_result,
    int32_t* out_dtype, int32_t use_fast_accum, AtenTensorHandle* ret0);

/// A convolution over cuDNN 9, which is opened by the first of them: 1 to 3 spatial dims, groups,
/// transposed, one dtype of float32, float64, float16, bfloat16. `input [n, c, ...]` (or without
/// n), `weight [out, c / groups, ...]`, transposed `[c, out / groups, ...]`; `bias` and `*bias` may
/// be null. The result is channels-last where the strides of input or weight are, and the dtype is
/// not float64. Layouts that differ from the result's are copied first. float32 is rounded to
/// TF32 only with the option allow_tf32, or AOTI_PLUGINS_ALLOW_TF32=1.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
    int64_t dilation_len_, int32_t transposed, const int64_t* output_padding,
    int64_t output_padding_len_, int64_t groups, AtenTensorHandle* ret0);

/// A shim of ours: `x [..., k]` (float16 or bfloat16) times the transpose of a weight [n, k] of 4
/// or 8 bits, laid out as docs/small-weights.md says: `weight [n / 8, k / depth, 512]` of uint8,
/// `scale` and `zero [n / 8, groups, 8]` as x or float32. A group has `group_size` weights of a
/// row, or all. `zero` is null, or what is taken from a code (`zero_kind` 1) or added to a weight
/// (2). `bias [n]` may be null. Up to 16 rows of x read the weight as it is; for more, parts of it
/// become a matrix for cuBLASLt. The result is [..., n].
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_small_weight_linear(
    AtenTensorHandle x, AtenTensorHandle weight, AtenTensorHandle scale, AtenTensorHandle* zero,
    AtenTensorHandle* bias, int64_t bits, int64_t group_size, int64_t zero_kind,
    AtenTensorHandle* ret0);

/// Running sums and products along `dim`, of any strides. `dtype` is the result's, null for int64
/// of integers and for the input's own of floats. Floats accumulate in float64.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_cumsum(AtenTensorHandle self, int64_t dim,
                                                   int32_t* dtype, AtenTensorHandle* ret0);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_cumprod(AtenTensorHandle self, int64_t dim,
                                                    int32_t* dtype, AtenTensorHandle* ret0);
/// How many elements lie in each of `bins` equal intervals from `min` to `max`, which is more and
/// belongs to the last one. Up to 4096 bins, 2^32 - 1 elements; floats of any strides.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_histc(AtenTensorHandle self, int64_t bins, double min,
                                                  double max, AtenTensorHandle* ret0);
/// Elements along `dim` in order, and their places (int64). Always stable, NaN above everything.
/// Lines of more than 4096 elements (2048 of 64 bits) need up to 32 bytes more for each element.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_sort(AtenTensorHandle self, int64_t dim,
                                                 int32_t descending, AtenTensorHandle* ret0,
                                                 AtenTensorHandle* ret1);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_sort_stable(AtenTensorHandle self, int32_t* stable,
                                                        int64_t dim, int32_t descending,
                                                        AtenTensorHandle* ret0,
                                                        AtenTensorHandle* ret1);
/// The `k` largest or smallest, of equal ones the first; in no particular order unless `sorted`.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_topk(AtenTensorHandle self, int64_t k, int64_t dim,
                                                 int32_t largest, int32_t sorted,
                                                 AtenTensorHandle* ret0, AtenTensorHandle* ret1);

/// Writes elements of `src`, or one value, to where `index` (int64) says along `dim`; the other
/// elements of `out` are those of `self`, which may be `out`. Which of several elements for one
/// place is written is not defined. An index out of range is left out, and the call of the program
/// (or its next one, where no output is in host memory) fails.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_scatter_src_out(AtenTensorHandle out,
                                                            AtenTensorHandle self, int64_t dim,
                                                            AtenTensorHandle index,
                                                            AtenTensorHandle src);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_scatter_value_out(AtenTensorHandle out,
                                                              AtenTensorHandle self, int64_t dim,
                                                              AtenTensorHandle index, double value);
/// As above, combining what meets at one place: `reduce` is sum, prod, mean, amax or amin, over the
/// element of `self` too where `include_self` is not 0. The order of sums is not defined.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_scatter_reduce_two_out(
    AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
    AtenTensorHandle src, const char* reduce, int32_t include_self);

/// Fourier transforms over cuFFT along the last dims, at most three, of a row-major tensor: of
/// float32 or float64, and of complex64 or complex128. The result is row-major.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda__fft_r2c(AtenTensorHandle self, const int64_t* dim,
                                                     int64_t dim_len_, int64_t normalization,
                                                     int32_t onesided, AtenTensorHandle* ret0);
AOTIP_EXPORT AOTITorchError aoti_torch_cuda__fft_c2c(AtenTensorHandle self, const int64_t* dim,
                                                     int64_t dim_len_, int64_t normalization,
                                                     int32_t forward, AtenTensorHandle* ret0);

/// Random integers from `low` to `high - 1`, of the process's sequence (the option `seed`), as
/// `aoti_torch_cpu_randint_low_out`; not while a graph is captured.
AOTIP_EXPORT AOTITorchError aoti_torch_cuda_randint_low_out(AtenTensorHandle out, int64_t low,
                                                            int64_t high, const int64_t* size,
                                                            int64_t size_len_);

/// The names of all shims of this library, as `aotip_shim_names()`.
AOTIP_EXPORT const char* const* aotip_cuda_shim_names(size_t* ret_count);

}  // extern "C"
