// Running sums and products along lines. A block takes a line in pieces of its own size; floats
// accumulate in float64, integers in 64 bits, where they wrap around.

#include "cuda/kernels/element.cuh"
#include "cuda/kernels/lines.cuh"

using namespace aoti_plugins;
using namespace aoti_plugins::cuda;

namespace {

__device__ bool accumulates_in_float64(int32_t dtype) {
  return dtype == kFloat16 || dtype == kBFloat16 || dtype == kFloat32 || dtype == kFloat64;
}

/// An element as the result's dtype has it: PyTorch converts first.
__device__ Number converted(const Number& n, int32_t dtype) {
  alignas(16) unsigned char bytes[16];
  store(bytes, 0, dtype, n);
  return load(bytes, 0, dtype);
}

__device__ void take(const Number& n, double* ret) {
  *ret = n.real;
}
__device__ void take(const Number& n, uint64_t* ret) {
  *ret = static_cast<uint64_t>(n.integer);
}
__device__ Number number_of(double value) {
  return real(value);
}
__device__ Number number_of(uint64_t value) {
  return integer(static_cast<int64_t>(value));
}

template <typename T>
__device__ T combine(bool product, T a, T b) {
  return product ? a * b : a + b;
}

template <typename T>
__device__ void scan_line(T* shared, void* dst, int32_t dst_dtype, const void* src,
                          int32_t src_dtype, bool product, const Lines& lines, int64_t line) {
  const int64_t to = line_start(lines, line, 0);
  const int64_t from = line_start(lines, line, 1);
  const T identity = product ? T(1) : T(0);
  T carry = identity;
  for (int64_t base = 0; base < lines.length; base += blockDim.x) {
    const int64_t i = base + threadIdx.x;
    T value = identity;
    if (i < lines.length) {
      take(converted(load(src, from + i * lines.steps[1], src_dtype), dst_dtype), &value);
    }
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned int reach = 1; reach < blockDim.x; reach *= 2) {
      const T before = threadIdx.x >= reach ? shared[threadIdx.x - reach] : identity;
      __syncthreads();
      shared[threadIdx.x] = combine(product, before, shared[threadIdx.x]);
      __syncthreads();
    }
    if (i < lines.length) {
      store(dst, to + i * lines.steps[0], dst_dtype,
            number_of(combine(product, carry, shared[threadIdx.x])));
    }
    carry = combine(product, carry, shared[blockDim.x - 1]);
    __syncthreads();
  }
}

}  // namespace

extern "C" __global__ void aotip_scan(void* dst, int32_t dst_dtype, const void* src,
                                      int32_t src_dtype, int32_t product, const Lines lines) {
  __shared__ double reals[kScanThreads];
  __shared__ uint64_t integers[kScanThreads];
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    if (accumulates_in_float64(dst_dtype)) {
      scan_line(reals, dst, dst_dtype, src, src_dtype, product != 0, lines, line);
    } else {
      scan_line(integers, dst, dst_dtype, src, src_dtype, product != 0, lines, line);
    }
  }
}
