// A step of a recurrent layer behind its product: each thread computes an element of the state.
//
// One kernel has all dtypes, for it is in the image of each GPU: sums are float64, which an element
// needs a dozen of, and functions those of float32 unless tensors are float64.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/kernels/recurrent_cell.h"
#include "slim/dtype.h"

using namespace aoti_plugins;
using namespace aoti_plugins::cuda;

namespace {

enum CellKind : uint32_t { kLstmCell, kGruCell, kTanhCell };  ///< and ReLU

/// A float of 16, 32 or 64 bits.
inline __device__ __noinline__ double load_float(const void* from, uint32_t i, int32_t dtype) {
  return dtype == kFloat64   ? static_cast<const double*>(from)[i]
         : dtype == kFloat32 ? static_cast<const float*>(from)[i]
         : dtype == kFloat16 ? __half2float(static_cast<const __half*>(from)[i])
                             : __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
}

inline __device__ __noinline__ void store_float(void* to, uint32_t i, int32_t dtype, double value) {
  if (dtype == kFloat64) {
    static_cast<double*>(to)[i] = value;
  } else if (dtype == kFloat32) {
    static_cast<float*>(to)[i] = static_cast<float>(value);
  } else if (dtype == kFloat16) {
    static_cast<__half*>(to)[i] = __float2half(static_cast<float>(value));
  } else {
    static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(static_cast<float>(value));
  }
}

inline __device__ __noinline__ double hyperbolic_tangent(double x, int32_t dtype) {
  return dtype == kFloat64 ? tanh(x) : tanhf(static_cast<float>(x));
}

/// Of a logistic function, which is a hyperbolic tangent of half the distance.
inline __device__ double sigmoid(double x, int32_t dtype) {
  return 0.5 + 0.5 * hyperbolic_tangent(0.5 * x, dtype);
}

__device__ void recurrent_cell(const RecurrentCell& c) {
  const uint32_t count = c.kind == kLstmCell ? 4 : c.kind == kGruCell ? 3 : 1;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < c.numel;
       i += gridDim.x * blockDim.x) {
    const uint32_t column = i % c.width;
    const uint32_t first = i / c.width * count * c.width + column;
    const auto input = [&](uint32_t gate) {
      return load_float(c.inputs, first + gate * c.width, c.dtype);
    };
    const auto state = [&](uint32_t gate) {
      const double product = load_float(c.gates, first + gate * c.width, c.dtype);
      return c.bias == nullptr ? product
                               : product + load_float(c.bias, column + gate * c.width, c.dtype);
    };
    const auto tangent = [&](double x) { return hyperbolic_tangent(x, c.dtype); };
    const auto opened = [&](uint32_t gate) { return sigmoid(input(gate) + state(gate), c.dtype); };
    double found;
    if (c.kind == kLstmCell) {
      const double next =
          opened(1) * load_float(c.cell, i, c.dtype) + opened(0) * tangent(input(2) + state(2));
      store_float(c.cell, i, c.dtype, next);
      found = opened(3) * tangent(next);
    } else if (c.kind == kGruCell) {
      const double next = tangent(input(2) + opened(0) * state(2));
      found = (load_float(c.before, i, c.dtype) - next) * opened(1) + next;
    } else {
      const double sum = input(0) + state(0);
      found = c.kind == kTanhCell ? tangent(sum) : sum < 0 ? 0.0 : sum;
    }
    store_float(c.hidden, i, c.dtype, found);
  }
}

}  // namespace

extern "C" __global__ void aotip_recurrent_cell(const RecurrentCell c) {
  recurrent_cell(c);
}
