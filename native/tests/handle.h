#pragma once

#include <aoti_plugins/shim.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace aoti_plugins::testing {

struct DeleteHandle {
  void operator()(AtenTensorOpaque* handle) const { aoti_torch_delete_tensor_object(handle); }
};

/// A tensor handle that frees itself.
using Handle = std::unique_ptr<AtenTensorOpaque, DeleteHandle>;
using Ints = std::vector<int64_t>;

inline Handle make(const Ints& sizes, const Ints& strides, int32_t dtype) {
  AtenTensorHandle handle = nullptr;
  (void)aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                                 dtype, aoti_torch_device_type_cpu(), 0, &handle);
  return Handle(handle);
}

inline Handle make(const Ints& sizes, int32_t dtype) {
  Ints strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i] > 0 ? sizes[i] : 1;
  }
  return make(sizes, strides, dtype);
}

template <typename T>
T* data_of(const Handle& handle) {
  void* data = nullptr;
  (void)aoti_torch_get_data_ptr(handle.get(), &data);
  return static_cast<T*>(data);
}

inline std::string reason() {
  return aotip_shim_last_error();
}

}  // namespace aoti_plugins::testing
