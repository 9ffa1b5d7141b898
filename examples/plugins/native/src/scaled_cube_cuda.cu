// The kernel of acme_native::scaled_cube for NVIDIA GPUs, and its C shim.

#include <aoti_plugins/cuda_shim.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void scaled_cube(const float* x, float* out, int64_t numel, float scale) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < numel) {
    out[i] = scale * x[i] * x[i] * x[i];
  }
}

/// out[i] = scale * x[i]^3 for `numel` elements, on `stream`.
cudaError_t launch(const void* x, void* out, int64_t numel, double scale, void* stream) {
  if (numel == 0) {
    return cudaSuccess;
  }
  const auto blocks = static_cast<unsigned int>((numel + kThreads - 1) / kThreads);
  scaled_cube<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(x), static_cast<float*>(out), numel, static_cast<float>(scale));
  return cudaGetLastError();
}

}  // namespace

extern "C" AOTIP_EXPORT AOTITorchError aoti_torch_cuda_scaled_cube(AtenTensorHandle self,
                                                                   double scale,
                                                                   AtenTensorHandle* ret0) {
  int64_t numel = 0;
  int32_t gpu = 0;
  void* from = nullptr;
  void* to = nullptr;
  void* stream = nullptr;
  // The result has the strides of `self`, which is dense: the op's fake form says so.
  if (aoti_torch_get_numel(self, &numel) != 0 || aoti_torch_get_device_index(self, &gpu) != 0 ||
      aoti_torch_get_current_cuda_stream(gpu, &stream) != 0 ||
      aoti_torch_get_data_ptr(self, &from) != 0 ||
      aoti_torch_clone_preserve_strides(self, ret0) != 0) {
    return 1;
  }
  if (aoti_torch_get_data_ptr(*ret0, &to) != 0 ||
      launch(from, to, numel, scale, stream) != cudaSuccess) {
    aoti_torch_delete_tensor_object(*ret0);
    return 1;
  }
  return 0;
}
