#pragma once

// What becomes of the result of many_rows.cu: gate and residual are behind it.

#include "cuda/kernels/gate.cuh"
#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/many_rows.h"
#include "cuda/kernels/ptx.cuh"

namespace aoti_plugins::cuda {

/// Columns of a block's tile, and what becomes of them.
struct RoundedColumns {
  const void* rounded;  ///< [columns, kManyRowsStep] in shared memory
  const void* residual;
  void* out;
  int columns;  ///< none where there are less than one
  int gate;
  int n;             ///< of the result
  int first_column;  ///< of the result's transpose, a row of it
  int first_row;
};

template <typename T>
__device__ void read_halves(const uint4& eight, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = HalfPair<T>::floats(word_of(eight, i));
    to[i * 2] = two.x;
    to[i * 2 + 1] = two.y;
  }
}

/// A thread writes eight rows of each of its columns, always the same ones.
template <typename T>
__device__ void write_rounded(const RoundedColumns& all) {
  const RoundedColumns s = all;  // what is written can't be what it says
  const int half = s.gate != kNoGate ? kManyRowsOfWeight / 2 : 0;
  const int eights = (kManyRowsOfWeight - half) / 8;  // of a column of the result
  const int row = static_cast<int>(threadIdx.x) % eights * 8;
  const int step = kManyRowsThreads / eights;  // from column to column
  int column = static_cast<int>(threadIdx.x) / eights;
  if (s.first_row + row >= s.n) {
    return;
  }
  const T* from = static_cast<const T*>(s.rounded) + column * kManyRowsStep + row;
  const int64_t place = static_cast<int64_t>(s.first_column + column) * s.n + s.first_row + row;
  T* out = static_cast<T*>(s.out) + place;
  const bool adds = s.residual != nullptr;
  const T* residual = adds ? static_cast<const T*>(s.residual) + place : nullptr;
  const auto next_residual = [&] {
    return adds && column < s.columns ? *reinterpret_cast<const uint4*>(residual)
                                      : make_uint4(0, 0, 0, 0);
  };
  uint4 next = next_residual();
#pragma unroll 1
  while (column < s.columns) {
    uint4 eight = *reinterpret_cast<const uint4*>(from + half);
    const uint4 others = next;
    column += step;
    if (adds) {
      residual += step * s.n;
      next = next_residual();
    }
    if (half != 0 || adds) {
      float found[8];
      read_halves<T>(eight, found);
      if (half != 0) {
        float gates[8];
        read_halves<T>(*reinterpret_cast<const uint4*>(from), gates);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          found[i] *= activated(gates[i], s.gate);
        }
      }
      float more[8];
      read_halves<T>(others, more);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        found[i] += more[i];
      }
      eight = make_uint4(HalfPair<T>::of(found[0], found[1]), HalfPair<T>::of(found[2], found[3]),
                         HalfPair<T>::of(found[4], found[5]), HalfPair<T>::of(found[6], found[7]));
    }
    *reinterpret_cast<uint4*>(out) = eight;
    from += step * kManyRowsStep;
    out += step * s.n;
  }
}

}  // namespace aoti_plugins::cuda
