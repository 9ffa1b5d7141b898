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
  float* sums;  ///< [columns, kManyRowsOfWeight], with gaps; and what a row is multiplied by
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

  __device__ float* eight(float* of_block, int column, int row) const {
    return of_block + column * kManyRowsSumsStep + row;
  }
};

inline __device__ void read_eight(const float* from, float (&to)[8]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 four = reinterpret_cast<const float4*>(from)[half];
    to[half * 4] = four.x;
    to[half * 4 + 1] = four.y;
    to[half * 4 + 2] = four.z;
    to[half * 4 + 3] = four.w;
  }
}

template <typename T>
__device__ void read_halves(const uint4& eight, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = HalfPair<T>::floats(word_of(eight, i));
    to[i * 2] = two.x;
    to[i * 2 + 1] = two.y;
  }
}

/// What gates other than SiLU make of eight numbers, in their place. Not inline, as kernels would
/// have it often.
inline __device__ __noinline__ void activate(float (&to)[8], int32_t gate) {
#pragma unroll 1
  for (float& one : to) {
    one = activated(one, gate);
  }
}

/// A thread writes eight rows of each of its columns, always the same ones.
template <typename T>
class SumsWriter {
 public:
  __device__ explicit SumsWriter(const RowSums& sums)
      : s_(sums),
        half_(sums.gate != kNoGate ? kManyRowsOfWeight / 2 : 0),
        eights_((kManyRowsOfWeight - half_) / 8),
        row_(static_cast<int>(threadIdx.x) % eights_ * 8),
        step_(kManyRowsThreads / eights_),
        first_(sums.rank * sums.own_columns + static_cast<int>(threadIdx.x) / eights_),
        end_(min(min((sums.rank + 1) * sums.own_columns, sums.columns),
                 sums.m - sums.first_column)) {}

  __device__ void write() const {
    if (s_.first_row + row_ >= s_.n) {
      return;
    }
    const Line line = line_of(half_ + row_, half_ != 0 ? s_.n : 0);
    const Line gate = line_of(row_, 0);
    const int64_t place =
        static_cast<int64_t>(s_.first_column + first_) * s_.n + s_.first_row + row_;
    T* out = static_cast<T*>(s_.out) + place;
    const bool adds = s_.residual != nullptr;
    const T* residual = adds ? static_cast<const T*>(s_.residual) + place : nullptr;
    uint4 next = residual_of(adds && first_ < end_, residual);
#pragma unroll 1
    for (int column = first_; column < end_; column += step_) {
      float found[8];
      finish(column, half_ + row_, line, found);
      if (half_ != 0) {
        float gates[8];
        finish(column, row_, gate, gates);
        if (s_.gate != kSiluGate) {
          activate(gates, s_.gate);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          found[i] *= s_.gate == kSiluGate ? silu(gates[i]) : gates[i];
        }
      }
      if (adds) {
        float more[8];
        read_halves<T>(next, more);
        residual += step_ * s_.n;
        next = residual_of(column + step_ < end_, residual);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          found[i] += more[i];
        }
      }
      *reinterpret_cast<uint4*>(out) =
          make_uint4(HalfPair<T>::of(found[0], found[1]), HalfPair<T>::of(found[2], found[3]),
                     HalfPair<T>::of(found[4], found[5]), HalfPair<T>::of(found[6], found[7]));
      out += step_ * s_.n;
    }
  }

 private:
  /// What stands around sums of eight rows.
  struct Line {
    float factor[8];
    float bias[8];
  };

  /// `before`: rows of the weight before the result's.
  __device__ Line line_of(int row, int before) const {
    Line found{};
    read_eight(s_.eight(s_.sums, s_.columns, row), found.factor);
    if (s_.bias != nullptr) {
      read_halves<T>(*reinterpret_cast<const uint4*>(static_cast<const T*>(s_.bias) + before +
                                                     s_.first_row + row_),
                     found.bias);
    }
    return found;
  }

  __device__ void finish(int column, int row, const Line& line, float (&found)[8]) const {
    read_eight(s_.eight(s_.splits == 1 ? s_.sums : shared_of_block(s_.sums, 0), column, row),
               found);
#pragma unroll 1
    for (int other = 1; other < s_.splits; ++other) {
      float more[8];
      read_eight(s_.eight(shared_of_block(s_.sums, other), column, row), more);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        found[i] += more[i];
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      found[i] = found[i] * line.factor[i] + line.bias[i];
    }
  }

  __device__ static uint4 residual_of(bool is_there, const T* from) {
    return is_there ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
  }

  const RowSums s_;   ///< a copy, so that what is written can't be what it says
  const int half_;    ///< of the tile: with a gate the rows that it multiplies
  const int eights_;  ///< of a column of the result
  const int row_;     ///< of the result's tile
  const int step_;    ///< from column to column
  const int first_;   ///< column, of the tile
  const int end_;     ///< of the columns
};

template <typename T>
__device__ __noinline__ void write_sums(const RowSums& sums) {
  SumsWriter<T>(sums).write();
}

}  // namespace aoti_plugins::cuda
