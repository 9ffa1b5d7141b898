// Multiplies all elements by a number.

#include "cuda/kernels/element.cuh"

namespace {

template <typename T>
__device__ void scale_elements(T* data, double factor, int64_t numel) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < numel; i += step) {
    data[i] *= static_cast<T>(factor);
  }
}

}  // namespace

extern "C" __global__ void aotip_scale_float32(float* data, double factor, int64_t numel) {
  scale_elements(data, factor, numel);
}

extern "C" __global__ void aotip_scale_float64(double* data, double factor, int64_t numel) {
  scale_elements(data, factor, numel);
}
