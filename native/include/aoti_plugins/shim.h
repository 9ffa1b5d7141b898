#pragma once

/// The C shims that this runtime provides to AOTInductor models, with PyTorch's names and
/// signatures.
///
/// A model calls them for everything it does with tensors; behind them is SlimTensor, not libtorch.
/// Conventions, unless a comment says otherwise: a function returns 0 on success; on failure it
/// returns 1, leaves every `ret_*` as it was and records a reason that `aotip_shim_last_error()`
/// returns. A `ret_*` handle is new: the caller frees it with `aoti_torch_delete_tensor_object`.
/// Other handles are borrowed. Sizes, strides and offsets count elements. Null handles and null
/// `ret_*` are failures, never crashes.
///
/// The linker names are `aotip_` + name, see shim_link_names.h.

#include <aoti_plugins/shim_link_names.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AOTIP_EXPORT __attribute__((__visibility__("default")))

namespace c10 {
struct Half;
struct BFloat16;
template <typename T>
struct complex;
}  // namespace c10

extern "C" {

struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;
using AOTITorchError = int32_t;

// Codes of device types, dtypes, layouts and memory formats: PyTorch's.
AOTIP_EXPORT int32_t aoti_torch_device_type_cpu();
AOTIP_EXPORT int32_t aoti_torch_device_type_cuda();
AOTIP_EXPORT int32_t aoti_torch_device_type_meta();
AOTIP_EXPORT int32_t aoti_torch_device_type_xpu();
AOTIP_EXPORT int32_t aoti_torch_device_type_mps();
AOTIP_EXPORT int32_t aoti_torch_device_type_privateuse1();

AOTIP_EXPORT int32_t aoti_torch_dtype_float8_e5m2();
AOTIP_EXPORT int32_t aoti_torch_dtype_float8_e4m3fn();
AOTIP_EXPORT int32_t aoti_torch_dtype_float8_e5m2fnuz();
AOTIP_EXPORT int32_t aoti_torch_dtype_float8_e4m3fnuz();
AOTIP_EXPORT int32_t aoti_torch_dtype_float8_e8m0fnu();
AOTIP_EXPORT int32_t aoti_torch_dtype_float4_e2m1fn_x2();
AOTIP_EXPORT int32_t aoti_torch_dtype_bfloat16();
AOTIP_EXPORT int32_t aoti_torch_dtype_float16();
AOTIP_EXPORT int32_t aoti_torch_dtype_float32();
AOTIP_EXPORT int32_t aoti_torch_dtype_float64();
AOTIP_EXPORT int32_t aoti_torch_dtype_uint8();
AOTIP_EXPORT int32_t aoti_torch_dtype_uint16();
AOTIP_EXPORT int32_t aoti_torch_dtype_uint32();
AOTIP_EXPORT int32_t aoti_torch_dtype_uint64();
AOTIP_EXPORT int32_t aoti_torch_dtype_int8();
AOTIP_EXPORT int32_t aoti_torch_dtype_int16();
AOTIP_EXPORT int32_t aoti_torch_dtype_int32();
AOTIP_EXPORT int32_t aoti_torch_dtype_int64();
AOTIP_EXPORT int32_t aoti_torch_dtype_bool();
AOTIP_EXPORT int32_t aoti_torch_dtype_complex32();
AOTIP_EXPORT int32_t aoti_torch_dtype_complex64();
AOTIP_EXPORT int32_t aoti_torch_dtype_complex128();
/// Bytes of one element; 0 for an unknown code (and a reason is recorded).
AOTIP_EXPORT size_t aoti_torch_dtype_element_size(int32_t dtype);

AOTIP_EXPORT int32_t aoti_torch_layout_strided();
AOTIP_EXPORT int32_t aoti_torch_layout_sparse_coo();
AOTIP_EXPORT int32_t aoti_torch_layout_sparse_csr();
AOTIP_EXPORT int32_t aoti_torch_layout_sparse_csc();
AOTIP_EXPORT int32_t aoti_torch_layout_sparse_bsr();
AOTIP_EXPORT int32_t aoti_torch_layout_sparse_bsc();
AOTIP_EXPORT int32_t aoti_torch_layout__mkldnn();
AOTIP_EXPORT int32_t aoti_torch_layout_jagged();

AOTIP_EXPORT int32_t aoti_torch_memory_format_contiguous_format();
AOTIP_EXPORT int32_t aoti_torch_memory_format_channels_last();
AOTIP_EXPORT int32_t aoti_torch_memory_format_channels_last_3d();
AOTIP_EXPORT int32_t aoti_torch_memory_format_preserve_format();

/// The newest PyTorch version whose shims this runtime follows, in PyTorch's encoding.
AOTIP_EXPORT uint64_t aoti_torch_abi_version();

// The value of a tensor with one element, converted to the type of the function.
AOTIP_EXPORT AOTITorchError aoti_torch_item_float16(AtenTensorHandle tensor, c10::Half* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_float32(AtenTensorHandle tensor, float* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_float64(AtenTensorHandle tensor, double* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_uint8(AtenTensorHandle tensor, uint8_t* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_uint16(AtenTensorHandle tensor, uint16_t* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_uint32(AtenTensorHandle tensor, uint32_t* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_uint64(AtenTensorHandle tensor, uint64_t* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_int8(AtenTensorHandle tensor, int8_t* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_int16(AtenTensorHandle tensor, int16_t* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_int32(AtenTensorHandle tensor, int32_t* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_int64(AtenTensorHandle tensor, int64_t* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_bool(AtenTensorHandle tensor, bool* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_bfloat16(AtenTensorHandle tensor,
                                                     c10::BFloat16* ret_value);
AOTIP_EXPORT AOTITorchError aoti_torch_item_complex64(AtenTensorHandle tensor,
                                                      c10::complex<float>* ret_value);

// A new 0-dim tensor on the CPU that holds the value.
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_float32(float value,
                                                                AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_float64(double value,
                                                                AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_uint8(uint8_t value,
                                                              AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_uint16(uint16_t value,
                                                               AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_uint32(uint32_t value,
                                                               AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_uint64(uint64_t value,
                                                               AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_int8(int8_t value,
                                                             AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_int16(int16_t value,
                                                              AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_int32(int32_t value,
                                                              AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_int64(int64_t value,
                                                              AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_bool(bool value,
                                                             AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_complex64(c10::complex<float> value,
                                                                  AtenTensorHandle* ret_new_tensor);
AOTIP_EXPORT AOTITorchError aoti_torch_scalar_to_tensor_complex128(
    c10::complex<double> value, AtenTensorHandle* ret_new_tensor);

/// The grad mode of this thread. Nothing here records gradients; the flag is only kept.
AOTIP_EXPORT bool aoti_torch_grad_mode_is_enabled();
AOTIP_EXPORT void aoti_torch_grad_mode_set_enabled(bool enabled);

/// Frees a tensor; its memory goes when no other tensor shares it. Null is allowed.
AOTIP_EXPORT AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor);

/// Address of the first element, borrowed; null when the tensor has none.
AOTIP_EXPORT AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle tensor, void** ret_data_ptr);
/// Size of the storage in bytes.
AOTIP_EXPORT AOTITorchError aoti_torch_get_storage_size(AtenTensorHandle tensor, int64_t* ret_size);
AOTIP_EXPORT AOTITorchError aoti_torch_get_dim(AtenTensorHandle tensor, int64_t* ret_dim);
AOTIP_EXPORT AOTITorchError aoti_torch_get_numel(AtenTensorHandle tensor, int64_t* ret_numel);
AOTIP_EXPORT AOTITorchError aoti_torch_get_storage_numel(AtenTensorHandle tensor,
                                                         int64_t* ret_numel);
/// Borrowed until the tensor is freed or assigned to; `ndim` numbers.
AOTIP_EXPORT AOTITorchError aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** ret_sizes);
/// `d` may be negative and then counts from the end.
AOTIP_EXPORT AOTITorchError aoti_torch_get_size(AtenTensorHandle tensor, int64_t d,
                                                int64_t* ret_size);
/// Borrowed until the tensor is freed or assigned to; `ndim` numbers.
AOTIP_EXPORT AOTITorchError aoti_torch_get_strides(AtenTensorHandle tensor, int64_t** ret_strides);
/// `d` may be negative and then counts from the end.
AOTIP_EXPORT AOTITorchError aoti_torch_get_stride(AtenTensorHandle tensor, int64_t d,
                                                  int64_t* ret_stride);
AOTIP_EXPORT AOTITorchError aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* ret_dtype);
AOTIP_EXPORT AOTITorchError aoti_torch_get_device_type(AtenTensorHandle tensor,
                                                       int32_t* ret_device_type);
/// -1 for the CPU, as in PyTorch.
AOTIP_EXPORT AOTITorchError aoti_torch_get_device_index(AtenTensorHandle tensor,
                                                        int32_t* ret_device_index);
AOTIP_EXPORT AOTITorchError aoti_torch_get_layout(AtenTensorHandle tensor, int32_t* ret_layout);
AOTIP_EXPORT AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle tensor,
                                                          int64_t* ret_storage_offset);
AOTIP_EXPORT AOTITorchError aoti_torch_is_contiguous(AtenTensorHandle tensor,
                                                     bool* ret_is_contiguous);
AOTIP_EXPORT AOTITorchError aoti_torch_is_defined(AtenTensorHandle tensor, bool* ret_is_defined);

/// Another handle for the same memory.
AOTIP_EXPORT AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle orig_handle,
                                                         AtenTensorHandle* new_handle);
/// A tensor `offset_bytes` into the storage of `self`.
AOTIP_EXPORT AOTITorchError aoti_torch__alloc_from_pool(AtenTensorHandle self, int64_t offset_bytes,
                                                        int32_t dtype, int64_t ndim,
                                                        const int64_t* sizes_ptr,
                                                        const int64_t* strides_ptr,
                                                        AtenTensorHandle* ret_new_tensor);
/// A view; `storage_offset` is added to the offset of `self`.
AOTIP_EXPORT AOTITorchError aoti_torch__reinterpret_tensor(AtenTensorHandle self, int64_t ndim,
                                                           const int64_t* sizes_ptr,
                                                           const int64_t* strides_ptr,
                                                           int64_t storage_offset,
                                                           AtenTensorHandle* ret_new_tensor);
/// New memory, not initialized.
AOTIP_EXPORT AOTITorchError aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes_ptr,
                                                     const int64_t* strides_ptr, int32_t dtype,
                                                     int32_t device_type, int32_t device_index,
                                                     AtenTensorHandle* ret_new_tensor);
/// As above, in page-locked memory where the device has such; plain memory on the CPU.
AOTIP_EXPORT AOTITorchError aoti_torch_empty_strided_pinned(int64_t ndim, const int64_t* sizes_ptr,
                                                            const int64_t* strides_ptr,
                                                            int32_t dtype, int32_t device_type,
                                                            int32_t device_index,
                                                            AtenTensorHandle* ret_new_tensor);
/// A view with the rank and the storage offset of `self`.
AOTIP_EXPORT AOTITorchError aoti_torch_as_strided(AtenTensorHandle self, const int64_t* sizes_ptr,
                                                  const int64_t* strides_ptr,
                                                  AtenTensorHandle* ret);
/// A tensor over memory that the caller keeps alive; `data` is the start of the storage.
AOTIP_EXPORT AOTITorchError aoti_torch_create_tensor_from_blob(
    void* data, int64_t ndim, const int64_t* sizes_ptr, const int64_t* strides_ptr,
    int64_t storage_offset, int32_t dtype, int32_t device_type, int32_t device_index,
    AtenTensorHandle* ret);
/// As above; only the strided layout without metadata is known.
AOTIP_EXPORT AOTITorchError aoti_torch_create_tensor_from_blob_v2(
    void* data, int64_t ndim, const int64_t* sizes_ptr, const int64_t* strides_ptr,
    int64_t storage_offset, int32_t dtype, int32_t device_type, int32_t device_index,
    AtenTensorHandle* ret, int32_t layout, const uint8_t* opaque_metadata,
    int64_t opaque_metadata_size);
/// A handle without a tensor, for `aoti_torch_assign_tensors`.
AOTIP_EXPORT AOTITorchError aoti_torch_new_uninitialized_tensor(AtenTensorHandle* ret);

/// Copies the elements of `src` to `dst`.
AOTIP_EXPORT AOTITorchError aoti_torch_tensor_copy_(AtenTensorHandle src, AtenTensorHandle dst);
/// Makes `dst` an alias of `src`.
AOTIP_EXPORT AOTITorchError aoti_torch_assign_tensors(AtenTensorHandle src, AtenTensorHandle dst);
/// A new alias of `src`.
AOTIP_EXPORT AOTITorchError aoti_torch_assign_tensors_out(AtenTensorHandle src,
                                                          AtenTensorHandle* ret_dst);
/// New memory with the same elements; dense strides are kept, others become row-major.
AOTIP_EXPORT AOTITorchError aoti_torch_clone(AtenTensorHandle self, AtenTensorHandle* ret);
/// New memory with the same elements and strides, gaps included.
AOTIP_EXPORT AOTITorchError aoti_torch_clone_preserve_strides(AtenTensorHandle self,
                                                              AtenTensorHandle* ret);
/// Copies the elements of `src`, which is broadcast and converted where needed, into `self`.
AOTIP_EXPORT AOTITorchError aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle src,
                                             int32_t non_blocking);
AOTIP_EXPORT AOTITorchError aoti_torch_zero_(AtenTensorHandle self);
/// Fails when an element is infinite or NaN.
AOTIP_EXPORT AOTITorchError aoti_torch_check_inf_and_nan(const char* tensor_name,
                                                         AtenTensorHandle tensor);

/// Writes a line about the tensor to standard output; for Inductor's debug printer.
AOTIP_EXPORT void aoti_torch_print_tensor_handle(AtenTensorHandle self, const char* msg);

/// Throws std::runtime_error when `cond` does not hold; the model's entry point turns it into an
/// error code.
AOTIP_EXPORT void aoti_torch_check(bool cond, const char* func, const char* file, uint32_t line,
                                   const char* msg);
/// Logs a warning.
AOTIP_EXPORT void aoti_torch_warn(const char* func, const char* file, uint32_t line,
                                  const char* msg);

// Operators of shim.h itself.
/// out = a @ b + c @ d
AOTIP_EXPORT AOTITorchError aoti_torch__mm_plus_mm_out(AtenTensorHandle out, AtenTensorHandle a,
                                                       AtenTensorHandle b, AtenTensorHandle c,
                                                       AtenTensorHandle d);
AOTIP_EXPORT AOTITorchError aoti_torch_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                                 AtenTensorHandle mat1, AtenTensorHandle mat2,
                                                 float beta, float alpha);
AOTIP_EXPORT AOTITorchError aoti_torch_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                               AtenTensorHandle mat2);
AOTIP_EXPORT AOTITorchError aoti_torch_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                              AtenTensorHandle mat2);
/// `bias` may be null.
AOTIP_EXPORT AOTITorchError
aoti_torch_convolution(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle bias,
                       const int64_t* stride_ptr, int64_t stride_size, const int64_t* padding_ptr,
                       int64_t padding_size, const int64_t* dilation_ptr, int64_t dilation_size,
                       int transposed, const int64_t* output_padding_ptr,
                       int64_t output_padding_size, int64_t groups, AtenTensorHandle* ret);
AOTIP_EXPORT AOTITorchError aoti_torch_view_as_real(AtenTensorHandle self, AtenTensorHandle* ret);
AOTIP_EXPORT AOTITorchError aoti_torch_view_dtype(AtenTensorHandle self, int32_t dtype,
                                                  AtenTensorHandle* ret);

// The operators, with comments in the list.
#define AOTIP_OPERATOR(shim, op, parameters) \
  AOTIP_EXPORT AOTITorchError aoti_torch_cpu_##shim parameters;
#define AOTIP_CPU_OPERATOR AOTIP_OPERATOR
#include <aoti_plugins/operators.inc>

AOTIP_EXPORT AOTITorchError aoti_torch_scatter_out(AtenTensorHandle out, AtenTensorHandle self,
                                                   int64_t dim, AtenTensorHandle index,
                                                   AtenTensorHandle src);
AOTIP_EXPORT AOTITorchError aoti_torch_scatter_reduce_out(AtenTensorHandle out,
                                                          AtenTensorHandle self, int64_t dim,
                                                          AtenTensorHandle index,
                                                          AtenTensorHandle src, const char* reduce,
                                                          int32_t include_self);

/// `out` becomes `self` with `values` written, or added, where the indices say: int64 or int32
/// numbers or masks, one per dim of `self` (a mask covers as many as it has); null handles take the
/// whole dim. `out` may be `self`.
AOTIP_EXPORT AOTITorchError aoti_torch_index_put_out(AtenTensorHandle out, AtenTensorHandle self,
                                                     const AtenTensorHandle* indices,
                                                     const uint32_t num_indices,
                                                     const AtenTensorHandle values,
                                                     bool accumulate);

/// The reason of this thread's most recent shim failure; borrowed until the next one.
AOTIP_EXPORT const char* aotip_shim_last_error();

/// The names of all shims that this library provides, sorted, in PyTorch's spelling (without
/// `aotip_`). The array and the strings live as long as the library. `ret_count` may be null.
AOTIP_EXPORT const char* const* aotip_shim_names(size_t* ret_count);

}  // extern "C"
