#pragma once

// What becomes of the sums of many_rows.cu: those of blocks that divide k come together, and bias,
// gate and residual are behind them.

#include "cuda/kernels/gate.cuh"
#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/many_rows.h"
#include "cuda/kernels/ptx.cuh"

namespace aoti_plugins::cuda {

/// Sums of a block's tile, or of those of a cluster that divide k, and what becomes of them.
struct RowSums {
  float* sums;  ///< [columns, kManyRowsOfWeight], with gaps
  const void* bias;
  const void* residual;
  void* out;
  int columns;
  int own_columns;  ///< of these, which a block writes
  int rank;
  int splits;
  int gate;
  int m;             ///< of the result
  int n;             ///< of the result
  int first_column;  ///< of the tile
  int first_row;

  __device__ bool has(int column, int row) const {
    return column < columns && first_column + column < m && first_row + row < n;
  }

  /// Where in the result, or the residual, an element of the tile is.
  __device__ int64_t place(int column, int row) const {
    return static_cast<int64_t>(first_column + column) * n + first_row + row;
  }

  __device__ const float* of_block(int other, int column, int row) const {
    return (splits == 1 ? sums : shared_of_block(sums, other)) + column * kManyRowsSumsStep + row;
  }
};

template <typename T>
__device__ void add_halves(float (&to)[8], const T* from) {
  const uint4 eight = *reinterpret_cast<const uint4*>(from);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = HalfPair<T>::floats(word_of(eight, i));
    to[i * 2] += two.x;
    to[i * 2 + 1] += two.y;
  }
}

/// Calls `body(column, row)` for each ROWS rows of the columns that this block writes, of a result's
/// tile of so many rows.
template <int ROWS, int TILE_ROWS, typename Body>
__device__ void for_own_rows(const RowSums& s, const Body& body) {
  constexpr int kOfColumn = TILE_ROWS / ROWS;
#pragma unroll 1
  for (int i = threadIdx.x; i < s.own_columns * kOfColumn; i += kManyRowsThreads) {
    const int column = s.rank * s.own_columns + i / kOfColumn;
    const int row = i % kOfColumn * ROWS;
    if (s.has(column, row)) {
      body(column, row);
    }
  }
}

// Functions of their own: the image has each once, or for a dtype, and not in each kernel.

inline __device__ __noinline__ float activated_by_call(float x, int32_t gate) {
  return activated(x, gate);
}

/// Eight rows of the result at a time.
template <typename T>
__device__ __noinline__ void write_sums(const RowSums& s) {
  for_own_rows<8, kManyRowsOfWeight>(s, [&](int column, int row) {
    float found[8] = {};
#pragma unroll 1
    for (int other = 0; other < s.splits; ++other) {
      const float4* const eight = reinterpret_cast<const float4*>(s.of_block(other, column, row));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        found[half * 4] += eight[half].x;
        found[half * 4 + 1] += eight[half].y;
        found[half * 4 + 2] += eight[half].z;
        found[half * 4 + 3] += eight[half].w;
      }
    }
    const int64_t at = s.place(column, row);
    if (s.bias != nullptr) {
      add_halves(found, static_cast<const T*>(s.bias) + s.first_row + row);
    }
    if (s.residual != nullptr) {
      add_halves(found, static_cast<const T*>(s.residual) + at);
    }
    *reinterpret_cast<uint4*>(static_cast<T*>(s.out) + at) =
        make_uint4(HalfPair<T>::of(found[0], found[1]), HalfPair<T>::of(found[2], found[3]),
                   HalfPair<T>::of(found[4], found[5]), HalfPair<T>::of(found[6], found[7]));
  });
}

/// Of two rows of the tile, which are rows of the weight from `row_of_weight` on.
template <typename T>
__device__ float2 sum_of_pair(const RowSums& s, int column, int row, int row_of_weight) {
  float2 found = make_float2(0, 0);
  if (s.bias != nullptr) {
    found = HalfPair<T>::floats(
        *reinterpret_cast<const uint32_t*>(static_cast<const T*>(s.bias) + row_of_weight));
  }
#pragma unroll 1
  for (int other = 0; other < s.splits; ++other) {
    const float2 two = *reinterpret_cast<const float2*>(s.of_block(other, column, row));
    found.x += two.x;
    found.y += two.y;
  }
  return found;
}

/// Two rows of the result at a time.
template <typename T>
__device__ __noinline__ void write_gated_sums(const RowSums& s) {
  constexpr int kHalf = kManyRowsOfWeight / 2;
  for_own_rows<2, kHalf>(s, [&](int column, int row) {
    const float2 gate = sum_of_pair<T>(s, column, row, s.first_row + row);
    float2 found = sum_of_pair<T>(s, column, row + kHalf, s.n + s.first_row + row);
    found.x *= activated_by_call(gate.x, s.gate);
    found.y *= activated_by_call(gate.y, s.gate);
    const int64_t at = s.place(column, row);
    if (s.residual != nullptr) {
      const float2 more = HalfPair<T>::floats(
          *reinterpret_cast<const uint32_t*>(static_cast<const T*>(s.residual) + at));
      found.x += more.x;
      found.y += more.y;
    }
    *reinterpret_cast<uint32_t*>(static_cast<T*>(s.out) + at) =
        HalfPair<T>::of(found.x, found.y);
  });
}

}  // namespace aoti_plugins::cuda
