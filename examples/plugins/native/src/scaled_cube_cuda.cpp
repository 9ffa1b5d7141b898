// The C shim of acme_native::scaled_cube on NVIDIA GPUs.

#include <aoti_plugins/cuda_shim.h>

#include "scaled_cube_kernel.h"

extern "C" AOTIP_EXPORT AOTITorchError aoti_torch_cuda_scaled_cube(AtenTensorHandle self,
                                                                   double scale,
                                                                   AtenTensorHandle* ret0);

AOTITorchError aoti_torch_cuda_scaled_cube(AtenTensorHandle self, double scale,
                                           AtenTensorHandle* ret0) {
  int64_t numel = 0;
  int32_t gpu = 0;
  void* from = nullptr;
  void* to = nullptr;
  void* stream = nullptr;
  if (aoti_torch_get_numel(self, &numel) != 0 || aoti_torch_get_device_index(self, &gpu) != 0 ||
      aoti_torch_get_current_cuda_stream(gpu, &stream) != 0 ||
      aoti_torch_get_data_ptr(self, &from) != 0 ||
      aoti_torch_clone_preserve_strides(self, ret0) != 0) {
    return 1;
  }
  if (aoti_torch_get_data_ptr(*ret0, &to) != 0 ||
      launch_scaled_cube(static_cast<const float*>(from), static_cast<float*>(to), numel,
                         static_cast<float>(scale), stream) != 0) {
    aoti_torch_delete_tensor_object(*ret0);
    return 1;
  }
  return 0;
}
