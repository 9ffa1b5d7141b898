#pragma once

/// What kernels of products of one row, and of what stands around products, are told.

#include <cstdint>

#include "cuda/kernels/small_weights.h"

namespace aoti_plugins::cuda {

/// What the first half of a product's columns becomes before the second is multiplied with it.
enum Gate : int32_t {
  kNoGate,
  kSiluGate,
  kGeluGate,      ///< x * Phi(x)
  kGeluTanhGate,  ///< with the approximation of Phi by tanh
};

/// Weights of 16 bits whose columns lie one behind the other in a product.
inline constexpr int32_t kMostWeights = 3;

/// A product of one row, m is 1. With a gate, out has n / 2 columns. A weight of 16 bits is up to
/// three matrices, [their columns, k] as x, aligned to 16 bytes, and has no scale.
struct OneRowProduct : SmallWeightProduct {
  const void* more[kMostWeights - 1];  ///< of 16 bits: the weights behind the first
  int32_t starts[kMostWeights - 1];    ///< their first columns; n where there are none
  const void* norm;      ///< [k] as x, or null: what x is multiplied with, see `epsilon`
  const void* residual;  ///< as out, or null: what is added to it
  float epsilon;         ///< of a norm: x is divided by sqrt(mean of its squares + epsilon)
  int32_t gate;          ///< a Gate
};

/// Rows of 16-bit floats times factors, each divided by the root of its mean square.
struct NormOfRows {
  const void* x;     ///< [m, k]
  const void* norm;  ///< [k]
  void* out;         ///< [m, k]
  int64_t k;
  float epsilon;
};

/// A product's rows become a result's.
struct EndOfRows {
  const void* product;   ///< [m, n], [m, 2 n] with a gate
  const void* residual;  ///< [m, n], or null
  void* out;             ///< [m, n]
  int64_t n;
  int64_t numel;  ///< of out
  int32_t gate;
};

}  // namespace aoti_plugins::cuda
