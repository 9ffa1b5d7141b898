// The C shim that fills a CPU tensor with one number.

#include "shim/run_shim.h"
#include "slim/element.h"
#include "slim/strided_copy.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cpu_fill__Scalar(AtenTensorHandle self, double value) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(self);
    Tensor& tensor = *unwrap(self);
    AOTIP_CHECK(tensor.device().type == kCpu, "self is on %s, expected cpu",
                device_type_name(tensor.device().type));
    AOTIP_CHECK(is_convertible(tensor.dtype()), "a %s tensor cannot be filled",
                dtype_name(tensor.dtype()));
    if (tensor.numel() == 0) {
      return Status::kOk;
    }
    alignas(16) char bytes[16];
    Element element;
    element.kind = Element::kReal;
    element.real = value;
    store_element(bytes, tensor.dtype(), element);
    const int64_t zeros[Tensor::kMaxDims] = {};
    strided_copy_raw(tensor.data(), tensor.strides(), bytes, zeros, tensor.ndim(), tensor.sizes(),
                     tensor.itemsize());
    return Status::kOk;
  });
}
