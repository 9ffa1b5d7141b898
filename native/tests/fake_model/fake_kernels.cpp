// A kernel library as a plugin ships it: one C shim of its own, and its version.

#include <aoti_plugins/shim.h>

extern "C" __attribute__((visibility("default"))) AOTITorchError
aoti_torch_cpu_unheard_of(AtenTensorHandle tensor) {
  return tensor != nullptr ? 0 : 1;
}

extern "C" __attribute__((visibility("default"))) const char*
aotip_version_of_libfake_kernels_so() {
  return "1.3";
}
