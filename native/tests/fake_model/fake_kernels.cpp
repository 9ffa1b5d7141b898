// A kernel library as a plugin ships it: one C shim of its own.

#include <aoti_plugins/shim.h>

extern "C" __attribute__((visibility("default"))) AOTITorchError
aoti_torch_cpu_unheard_of(AtenTensorHandle tensor) {
  return tensor != nullptr ? 0 : 1;
}
