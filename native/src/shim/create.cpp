// Tensors, views and handles: made and freed.

#include "shim/handle_log.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor) {
  HandleLog::note_deleted(tensor);
  Tensor::destroy(unwrap(tensor));
  return kShimSuccess;
}

AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle orig_handle,
                                            AtenTensorHandle* new_handle) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(orig_handle);
    AOTIP_CHECK_ARG(new_handle);
    AOTIP_RETURN_IF_FAILED(give(unwrap(orig_handle)->alias(), new_handle));
    HandleLog::note_new(*new_handle);
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_new_uninitialized_tensor(AtenTensorHandle* ret) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret);
    return give(Tensor::undefined(), ret);
  });
}

AOTITorchError aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes_ptr,
                                        const int64_t* strides_ptr, int32_t dtype,
                                        int32_t device_type, int32_t device_index,
                                        AtenTensorHandle* ret_new_tensor) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret_new_tensor);
    return give(
        Tensor::empty_strided(ndim, sizes_ptr, strides_ptr, dtype, {device_type, device_index}),
        ret_new_tensor);
  });
}

AOTITorchError aoti_torch_empty_strided_pinned(int64_t ndim, const int64_t* sizes_ptr,
                                               const int64_t* strides_ptr, int32_t dtype,
                                               int32_t device_type, int32_t device_index,
                                               AtenTensorHandle* ret_new_tensor) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret_new_tensor);
    AOTIP_CHECK(device_type == kCpu, "only cpu memory can be page-locked, not %s memory",
                device_type_name(device_type));
    return give(
        Tensor::empty_strided(ndim, sizes_ptr, strides_ptr, dtype, {device_type, device_index}),
        ret_new_tensor);
  });
}

AOTITorchError aoti_torch_create_tensor_from_blob(void* data, int64_t ndim,
                                                  const int64_t* sizes_ptr,
                                                  const int64_t* strides_ptr,
                                                  int64_t storage_offset, int32_t dtype,
                                                  int32_t device_type, int32_t device_index,
                                                  AtenTensorHandle* ret) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret);
    return give(Tensor::borrow(data, ndim, sizes_ptr, strides_ptr, storage_offset, dtype,
                               {device_type, device_index}),
                ret);
  });
}

AOTITorchError aoti_torch_create_tensor_from_blob_v2(
    void* data, int64_t ndim, const int64_t* sizes_ptr, const int64_t* strides_ptr,
    int64_t storage_offset, int32_t dtype, int32_t device_type, int32_t device_index,
    AtenTensorHandle* ret, int32_t layout, const uint8_t* opaque_metadata,
    int64_t opaque_metadata_size) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret);
    AOTIP_CHECK(layout == aoti_torch_layout_strided(),
                "layout %d is not supported, only strided (0) is", layout);
    AOTIP_CHECK(opaque_metadata == nullptr || opaque_metadata_size == 0,
                "a strided tensor has no opaque metadata, found %lld bytes",
                static_cast<long long>(opaque_metadata_size));
    return give(Tensor::borrow(data, ndim, sizes_ptr, strides_ptr, storage_offset, dtype,
                               {device_type, device_index}),
                ret);
  });
}

AOTITorchError aoti_torch__reinterpret_tensor(AtenTensorHandle self, int64_t ndim,
                                              const int64_t* sizes_ptr, const int64_t* strides_ptr,
                                              int64_t storage_offset,
                                              AtenTensorHandle* ret_new_tensor) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self);
    AOTIP_CHECK_ARG(ret_new_tensor);
    const Tensor* tensor = unwrap(self);
    return give(tensor->view(ndim, sizes_ptr, strides_ptr,
                             tensor->storage_offset() + storage_offset, tensor->dtype()),
                ret_new_tensor);
  });
}

AOTITorchError aoti_torch_as_strided(AtenTensorHandle self, const int64_t* sizes_ptr,
                                     const int64_t* strides_ptr, AtenTensorHandle* ret) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self);
    AOTIP_CHECK_ARG(ret);
    const Tensor* tensor = unwrap(self);
    return give(tensor->view(tensor->ndim(), sizes_ptr, strides_ptr, tensor->storage_offset(),
                             tensor->dtype()),
                ret);
  });
}

AOTITorchError aoti_torch__alloc_from_pool(AtenTensorHandle self, int64_t offset_bytes,
                                           int32_t dtype, int64_t ndim, const int64_t* sizes_ptr,
                                           const int64_t* strides_ptr,
                                           AtenTensorHandle* ret_new_tensor) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self);
    AOTIP_CHECK_ARG(ret_new_tensor);
    const int64_t itemsize = static_cast<int64_t>(element_nbytes(dtype));
    AOTIP_CHECK(itemsize > 0, "%d is not the code of a known dtype", dtype);
    AOTIP_CHECK(offset_bytes >= 0 && offset_bytes % itemsize == 0,
                "offset of %lld bytes is not a multiple of the %lld bytes of a %s",
                static_cast<long long>(offset_bytes), static_cast<long long>(itemsize),
                dtype_name(dtype));
    return give(unwrap(self)->view(ndim, sizes_ptr, strides_ptr, offset_bytes / itemsize, dtype),
                ret_new_tensor);
  });
}

AOTITorchError aoti_torch_assign_tensors(AtenTensorHandle src, AtenTensorHandle dst) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(src);
    AOTIP_CHECK_ARG(dst);
    return unwrap(dst)->assign(*unwrap(src));
  });
}

AOTITorchError aoti_torch_assign_tensors_out(AtenTensorHandle src, AtenTensorHandle* ret_dst) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(src);
    AOTIP_CHECK_ARG(ret_dst);
    return give(unwrap(src)->alias(), ret_dst);
  });
}
