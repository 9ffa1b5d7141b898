// The C shim of acme_native::scaled_cube on the CPU. Generated code calls it as aoti_torch_cpu_ and
// the op's name.

#include <aoti_plugins/shim.h>

extern "C" AOTIP_EXPORT AOTITorchError aoti_torch_cpu_scaled_cube(AtenTensorHandle self,
                                                                  double scale,
                                                                  AtenTensorHandle* ret0);

AOTITorchError aoti_torch_cpu_scaled_cube(AtenTensorHandle self, double scale,
                                          AtenTensorHandle* ret0) {
  int64_t numel = 0;
  void* from = nullptr;
  void* to = nullptr;
  // The result has the strides of `self`, which is dense: the op's fake form says so.
  if (aoti_torch_get_numel(self, &numel) != 0 || aoti_torch_get_data_ptr(self, &from) != 0 ||
      aoti_torch_clone_preserve_strides(self, ret0) != 0) {
    return 1;
  }
  if (aoti_torch_get_data_ptr(*ret0, &to) != 0) {
    aoti_torch_delete_tensor_object(*ret0);
    return 1;
  }
  const float* const x = static_cast<const float*>(from);
  float* const out = static_cast<float*>(to);
  const float factor = static_cast<float>(scale);
  for (int64_t i = 0; i < numel; ++i) {
    out[i] = factor * x[i] * x[i] * x[i];
  }
  return 0;
}
