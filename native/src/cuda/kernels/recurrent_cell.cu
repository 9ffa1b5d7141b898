// A step of a recurrent layer behind its product: each thread computes an element of the state.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/kernels/recurrent_cell.h"

using namespace aoti_plugins::cuda;

namespace {

enum CellKind : int64_t { kLstmCell, kGruCell, kTanhCell };  ///< and ReLU

inline __device__ float exponential(float x) {
  return expf(x);
}

inline __device__ double exponential(double x) {
  return exp(x);
}

inline __device__ float hyperbolic_tangent(float x) {
  return tanhf(x);
}

inline __device__ double hyperbolic_tangent(double x) {
  return tanh(x);
}

template <typename Wide>
__device__ Wide sigmoid(Wide x) {
  return Wide(1) / (Wide(1) + exponential(-x));
}

/// @tparam T of the tensors.
/// @tparam Wide what is computed with.
template <typename T, typename Wide>
__device__ void recurrent_cell(const RecurrentCell& c) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t count = c.kind == kLstmCell ? 4 : c.kind == kGruCell ? 3 : 1;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < c.numel;
       i += step) {
    const int64_t column = i % c.width;
    const int64_t first = i / c.width * count * c.width + column;
    const auto input = [&](int gate) {
      return static_cast<Wide>(static_cast<const T*>(c.inputs)[first + gate * c.width]);
    };
    const auto state = [&](int gate) {
      const int64_t place = column + gate * c.width;
      const Wide product =
          static_cast<Wide>(static_cast<const T*>(c.gates)[first + gate * c.width]);
      return c.bias == nullptr
                 ? product
                 : product + static_cast<Wide>(static_cast<const T*>(c.bias)[place]);
    };
    Wide found;
    if (c.kind == kLstmCell) {
      T* const cell = static_cast<T*>(c.cell) + i;
      const Wide kept = sigmoid(input(1) + state(1)) * static_cast<Wide>(*cell);
      const Wide next =
          kept + sigmoid(input(0) + state(0)) * hyperbolic_tangent(input(2) + state(2));
      *cell = static_cast<T>(next);
      found = sigmoid(input(3) + state(3)) * hyperbolic_tangent(next);
    } else if (c.kind == kGruCell) {
      const Wide next =
          hyperbolic_tangent(input(2) + sigmoid(input(0) + state(0)) * state(2));
      const Wide before = static_cast<Wide>(static_cast<const T*>(c.before)[i]);
      found = (before - next) * sigmoid(input(1) + state(1)) + next;
    } else {
      const Wide sum = input(0) + state(0);
      found = c.kind == kTanhCell ? hyperbolic_tangent(sum) : sum < 0 ? Wide(0) : sum;
    }
    static_cast<T*>(c.hidden)[i] = static_cast<T>(found);
  }
}

}  // namespace

#define AOTIP_RECURRENT_CELL(DTYPE, TYPE, WIDE)                                        \
  extern "C" __global__ void aotip_recurrent_cell_##DTYPE(const RecurrentCell c) { \
    recurrent_cell<TYPE, WIDE>(c);                                                     \
  }

AOTIP_RECURRENT_CELL(float16, __half, float)
AOTIP_RECURRENT_CELL(bfloat16, __nv_bfloat16, float)
AOTIP_RECURRENT_CELL(float32, float, float)
AOTIP_RECURRENT_CELL(float64, double, double)
