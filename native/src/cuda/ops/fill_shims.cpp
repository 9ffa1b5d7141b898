// The C shim that fills a CUDA tensor with one number.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/driver/cuda_device.h"
#include "shim/run_shim.h"
#include "slim/element.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cuda_fill__Scalar(AtenTensorHandle self, double value) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(self);
    Tensor& tensor = *unwrap(self);
    AOTIP_CHECK(tensor.device().type == kCuda, "self is on %s, expected cuda",
                device_type_name(tensor.device().type));
    AOTIP_CHECK(is_convertible(tensor.dtype()), "a %s tensor cannot be filled",
                dtype_name(tensor.dtype()));
    alignas(16) char bytes[16];
    Element element;
    element.kind = Element::kReal;
    element.real = value;
    store_element(bytes, tensor.dtype(), element);
    return cuda::fill(tensor, bytes);
  });
}
