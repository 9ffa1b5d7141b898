// Elements copied, cloned, zeroed and looked at.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "shim/run_shim.h"
#include "slim/element.h"

using namespace aoti_plugins;

namespace {

/// The device that can copy between two tensors: the one that is not the CPU, if there is one.
Status copy_between(Tensor& dst, const Tensor& src) {
  const int32_t type = dst.device().type != kCpu ? dst.device().type : src.device().type;
  DeviceInterface* device = find_device(type);
  AOTIP_CHECK(device != nullptr, "no device of type %s in this process", device_type_name(type));
  return device->copy(dst, src);
}

/// Copies `src`, broadcast to the sizes of `dst`.
Status copy_broadcast(Tensor& dst, const Tensor& src) {
  const int64_t extra = dst.ndim() - src.ndim();
  bool equal = extra == 0;
  AOTIP_CHECK(extra >= 0, "copy_: a %lld-dim source does not broadcast to %lld dims",
              static_cast<long long>(src.ndim()), static_cast<long long>(dst.ndim()));
  int64_t strides[Tensor::kMaxDims] = {};
  for (int64_t d = 0; d < src.ndim(); ++d) {
    const bool same = src.size(d) == dst.size(d + extra);
    AOTIP_CHECK(same || src.size(d) == 1,
                "copy_: size %lld of dim %lld of the source does not broadcast to %lld",
                static_cast<long long>(src.size(d)), static_cast<long long>(d),
                static_cast<long long>(dst.size(d + extra)));
    strides[d + extra] = same ? src.stride(d) : 0;
    equal = equal && same;
  }
  if (equal) {
    return copy_between(dst, src);
  }
  if (dst.numel() == 0) {
    return Status::kOk;
  }
  const OwnedTensor expanded(
      src.view(dst.ndim(), dst.sizes(), strides, src.storage_offset(), src.dtype()));
  AOTIP_RETURN_IF_NULL(expanded);
  return copy_between(dst, *expanded);
}

Tensor* copy_to_new(const Tensor& self, const int64_t* strides) {
  OwnedTensor copy(
      Tensor::empty_strided(self.ndim(), self.sizes(), strides, self.dtype(), self.device()));
  return copy != nullptr && copy_between(*copy, self) == Status::kOk ? copy.release() : nullptr;
}

}  // namespace

AOTITorchError aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle src, int32_t) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self, src);
    return copy_broadcast(*unwrap(self), *unwrap(src));
  });
}

AOTITorchError aoti_torch_tensor_copy_(AtenTensorHandle src, AtenTensorHandle dst) {
  return aoti_torch_copy_(dst, src, 0);
}

AOTITorchError aoti_torch_clone(AtenTensorHandle self, AtenTensorHandle* ret) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self);
    AOTIP_CHECK_ARG(ret);
    const Tensor& tensor = *unwrap(self);
    int64_t strides[Tensor::kMaxDims];
    contiguous_strides(tensor.ndim(), tensor.sizes(), strides);
    return give(copy_to_new(tensor, tensor.is_dense() ? tensor.strides() : strides), ret);
  });
}

AOTITorchError aoti_torch_clone_preserve_strides(AtenTensorHandle self, AtenTensorHandle* ret) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self);
    AOTIP_CHECK_ARG(ret);
    return give(copy_to_new(*unwrap(self), unwrap(self)->strides()), ret);
  });
}

AOTITorchError aoti_torch_zero_(AtenTensorHandle self) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self);
    Tensor& tensor = *unwrap(self);
    DeviceInterface* device = find_device(tensor.device().type);
    AOTIP_CHECK(device != nullptr, "no device of type %s in this process",
                device_type_name(tensor.device().type));
    if (tensor.is_dense()) {
      return device->fill_zero(tensor.data(), tensor.nbytes(), tensor.device().index);
    }
    const int64_t no_sizes = 0;
    const OwnedTensor zero(Tensor::empty(0, &no_sizes, tensor.dtype(), tensor.device()));
    AOTIP_RETURN_IF_NULL(zero);
    AOTIP_RETURN_IF_FAILED(
        device->fill_zero(zero->data(), zero->itemsize(), tensor.device().index));
    return copy_broadcast(tensor, *zero);
  });
}

AOTITorchError aoti_torch_check_inf_and_nan(const char* tensor_name, AtenTensorHandle tensor) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(tensor);
    const Tensor& t = *unwrap(tensor);
    AOTIP_CHECK(t.device().type == kCpu, "only cpu tensors can be checked, found %s",
                device_type_name(t.device().type));
    AOTIP_CHECK(is_convertible(t.dtype()), "%s tensors cannot be checked", dtype_name(t.dtype()));
    int64_t index[Tensor::kMaxDims] = {};
    for (int64_t i = 0; i < t.numel(); ++i) {
      int64_t rest = i;
      int64_t offset = 0;
      for (int64_t d = t.ndim() - 1; d >= 0; --d) {
        index[d] = rest % t.size(d);
        rest /= t.size(d);
        offset += index[d] * t.stride(d);
      }
      const Element e =
          load_element(t.data_as<char>() + offset * static_cast<int64_t>(t.itemsize()), t.dtype());
      AOTIP_CHECK(std::isfinite(e.real) && std::isfinite(e.imag), "element %lld of %s is %s",
                  static_cast<long long>(i), tensor_name != nullptr ? tensor_name : "the tensor",
                  std::isnan(e.real) || std::isnan(e.imag) ? "NaN" : "infinite");
    }
    return Status::kOk;
  });
}

void aoti_torch_print_tensor_handle(AtenTensorHandle self, const char* msg) {
  const char* text = msg != nullptr ? msg : "";
  if (self == nullptr || !unwrap(self)->defined()) {
    std::printf("%s: undefined tensor\n", text);
    return;
  }
  const Tensor& t = *unwrap(self);
  std::printf("%s: %s %s [", text, dtype_name(t.dtype()), device_type_name(t.device().type));
  for (int64_t d = 0; d < t.ndim(); ++d) {
    std::printf(d == 0 ? "%lld" : ", %lld", static_cast<long long>(t.size(d)));
  }
  std::printf("]\n");
}
