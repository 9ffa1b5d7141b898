// Shims under MPS names that do the same on every device.

#include <aoti_plugins/mps_op_shims.h>

AOTITorchError aoti_torch_mps_view_dtype(AtenTensorHandle self, int32_t dtype,
                                         AtenTensorHandle* ret0) {
  return aoti_torch_view_dtype(self, dtype, ret0);
}

AOTITorchError aoti_torch_mps_view_as_real(AtenTensorHandle self, AtenTensorHandle* ret0) {
  return aoti_torch_view_as_real(self, ret0);
}
