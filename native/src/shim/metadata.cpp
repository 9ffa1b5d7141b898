// What a model asks a tensor about itself.

#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

/// Runs `read` on a defined tensor and stores what it returns.
template <typename T, typename Read>
Status get(AtenTensorHandle tensor, T* ret, const Read& read) {
  AOTIP_CHECK_TENSORS(tensor);
  AOTIP_CHECK(ret != nullptr, "the address for the result is null");
  *ret = read(*unwrap(tensor));
  return Status::kOk;
}

/// Turns a dim that may count from the end into an index of 0 to ndim - 1.
Status wrap_dim(const Tensor& tensor, int64_t d, int64_t* ret) {
  const int64_t ndim = tensor.ndim();
  AOTIP_CHECK(d >= -ndim && d < ndim, "dim %lld is out of range for a %lld-dim tensor",
              static_cast<long long>(d), static_cast<long long>(ndim));
  *ret = d < 0 ? d + ndim : d;
  return Status::kOk;
}

}  // namespace

#define AOTIP_DEFINE_GETTER(name, type, expression)                                \
  AOTITorchError aoti_torch_##name(AtenTensorHandle tensor, type* ret) {           \
    return run_shim(__func__, [&] {                                                \
      return get(tensor, ret, [](const Tensor& t) -> type { return expression; }); \
    });                                                                            \
  }

AOTIP_DEFINE_GETTER(get_data_ptr, void*, t.data())
AOTIP_DEFINE_GETTER(get_storage_size, int64_t, static_cast<int64_t>(t.storage_nbytes()))
AOTIP_DEFINE_GETTER(get_storage_numel, int64_t,
                    static_cast<int64_t>(t.storage_nbytes() / t.itemsize()))
AOTIP_DEFINE_GETTER(get_dim, int64_t, t.ndim())
AOTIP_DEFINE_GETTER(get_numel, int64_t, t.numel())
AOTIP_DEFINE_GETTER(get_sizes, int64_t*, t.sizes())
AOTIP_DEFINE_GETTER(get_strides, int64_t*, t.strides())
AOTIP_DEFINE_GETTER(get_dtype, int32_t, t.dtype())
AOTIP_DEFINE_GETTER(get_device_type, int32_t, t.device().type)
AOTIP_DEFINE_GETTER(get_device_index, int32_t, t.device().type == kCpu ? -1 : t.device().index)
AOTIP_DEFINE_GETTER(get_layout, int32_t, (static_cast<void>(t), aoti_torch_layout_strided()))
AOTIP_DEFINE_GETTER(get_storage_offset, int64_t, t.storage_offset())
AOTIP_DEFINE_GETTER(is_contiguous, bool, t.is_contiguous())

AOTITorchError aoti_torch_is_defined(AtenTensorHandle tensor, bool* ret_is_defined) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(tensor);
    AOTIP_CHECK_ARG(ret_is_defined);
    *ret_is_defined = unwrap(tensor)->defined();
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_get_size(AtenTensorHandle tensor, int64_t d, int64_t* ret_size) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(tensor);
    AOTIP_CHECK_ARG(ret_size);
    int64_t index = 0;
    AOTIP_RETURN_IF_FAILED(wrap_dim(*unwrap(tensor), d, &index));
    *ret_size = unwrap(tensor)->size(index);
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_get_stride(AtenTensorHandle tensor, int64_t d, int64_t* ret_stride) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(tensor);
    AOTIP_CHECK_ARG(ret_stride);
    int64_t index = 0;
    AOTIP_RETURN_IF_FAILED(wrap_dim(*unwrap(tensor), d, &index));
    *ret_stride = unwrap(tensor)->stride(index);
    return Status::kOk;
  });
}
