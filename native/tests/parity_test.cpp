// Compiles only if our shims have PyTorch's signatures: both headers declare the same C functions
// here.

#include <aoti_plugins/cuda_shim.h>
#include <aoti_plugins/mps_op_shims.h>
#include <aoti_plugins/mps_shim.h>
#include <aoti_plugins/shim.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/c/shim_mps.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cuda.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_mps.h>

#include <type_traits>

static_assert(std::is_same_v<AOTITorchError, int32_t>, "error codes are int32");

int main() {
  return 0;
}
