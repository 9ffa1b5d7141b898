#pragma once

// What products of one row share whose weights run through shared memory: the ring, and what
// becomes of the parts that the warps of a block have computed.

#include "cuda/kernels/float_codes.cuh"
#include "cuda/kernels/gate.cuh"
#include "cuda/kernels/half_pair.cuh"
#include "cuda/kernels/ptx.cuh"
#include "cuda/kernels/streamed_row.h"
#include "cuda/kernels/warp.cuh"

namespace aoti_plugins::cuda {

/// What a result is multiplied with for its row of the weight: nothing, a T, a float32.
enum ScaleOfRow { kNoneOfRow, kHalfOfRow, kFloatOfRow };

/// A block's share of a product whose row and result are T.
template <typename T, ScaleOfRow SCALE>
class StreamedBlock {
 protected:
  static constexpr int kThreads = kStreamedWarps * 32;

  /// What a thread adds to its column of the result, and multiplies it with; bits of T, or of
  /// float32, so that nothing waits for them. The second is of the column that is gated.
  struct Around {
    uint32_t bias[2];
    uint32_t scale[2];
    uint32_t residual;
  };

  __device__ StreamedBlock(const OneRowProduct& product, const StreamedShape& shape)
      : p_(product),
        shape_(shape),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(__shfl_sync(kAllLanes, threadIdx.x / 32, 0))),
        chunks_((p_.k + kStreamedChunk - 1) / kStreamedChunk),
        pieces_((chunks_ + shape.piece - 1) / shape.piece),
        first_(static_cast<int>(blockIdx.x) * shape.pairs +
               min(static_cast<int>(blockIdx.x), shape.more)),
        last_(first_ + shape.pairs + (static_cast<int>(blockIdx.x) < shape.more ? 1 : 0)),
        is_gated_(p_.gate != kNoGate) {}

  /// Divides shared memory behind the ring and the row.
  __device__ void share(char* memory) {
    parts_ = reinterpret_cast<float*>(memory);
    memory += shape_.kept * kStreamedWarps * kStreamedRows * 4;
    squares_ = reinterpret_cast<float*>(memory);
    memory += kStreamedWarps * 4;
    full_ = reinterpret_cast<Arrivals*>(memory);
    empty_ = full_ + shape_.stages;
    has_row_ = reinterpret_cast<volatile int32_t*>(empty_ + shape_.stages);
  }

  /// All threads. The next kernel may begin now, or the caller says so later.
  __device__ void begin(bool lets_next_begin = true) {
    if (lets_next_begin) {
      let_next_begin();
    }
    if (threadIdx.x == 0) {
      *has_row_ = 0;
#pragma unroll 1
      for (int stage = 0; stage < shape_.stages; ++stage) {
        begin_arrivals(&full_[stage], 1);
        begin_arrivals(&empty_[stage], kStreamedWarps);
      }
      show_arrivals_to_copies();
    }
    __syncthreads();
  }

  __device__ bool is_fetching() const { return warp_ == kStreamedWarps; }

  /// Waits for the kernels in front; returns what is around a thread's first column.
  __device__ Around wait_for_row() const {
    const int column = first_ * columns_of_pair() + static_cast<int>(threadIdx.x);
    const bool is_there = column < min(columns(), last_ * columns_of_pair());
    Around around = {};
    if (is_there) {
      fetch_constants(around, column);
    }
    wait_for_inputs();
    if (threadIdx.x == 0) {
      *has_row_ = 1;
    }
    around.residual = is_there ? bits_of(p_.residual, column) : 0;
    return around;
  }

  /// Before the `count`-th stage is fetched. What waits in front of the GPU's memory holds up the
  /// kernel that makes the row, so while that runs few stages are on their way.
  __device__ void hold_back(int count) const {
    if (count >= shape_.early && count < shape_.stages && *has_row_ == 0) {
      wait_for_turn(&full_[count - shape_.early], 0);
    }
  }

  __device__ int columns() const { return is_gated_ ? p_.n / 2 : p_.n; }

  __device__ int columns_of_pair() const { return is_gated_ ? kStreamedRows / 2 : kStreamedRows; }

  __device__ void next(int& stage, uint32_t& parity) const {
    if (++stage == shape_.stages) {
      stage = 0;
      parity ^= 1;
    }
  }

  __device__ static uint32_t bits_of(const void* from, int i) {
    return from != nullptr ? static_cast<const uint16_t*>(from)[i] : 0;
  }

  __device__ static float number(uint32_t bits) { return HalfPair<T>::floats(bits).x; }

  __device__ uint32_t scale_bits(int row) const {
    if constexpr (SCALE == kFloatOfRow) {
      return __float_as_uint(float_row_factor(p_, row));
    } else {
      return SCALE == kHalfOfRow ? bits_of(p_.scale, row) : 0;
    }
  }

  __device__ static float scale_number(uint32_t bits) {
    return SCALE == kFloatOfRow ? __uint_as_float(bits) : SCALE == kHalfOfRow ? number(bits) : 1.0f;
  }

  __device__ void fetch_constants(Around& around, int column) const {
    around.bias[0] = bits_of(p_.bias, column);
    around.scale[0] = scale_bits(column);
    if (is_gated_) {
      around.bias[1] = bits_of(p_.bias, column + p_.n / 2);
      around.scale[1] = scale_bits(column + p_.n / 2);
    }
  }

  __device__ void keep(int slot, const float (&sums)[2]) {
    if (lane_ % 4 == 0) {
      float* const to = parts_ + (slot * kStreamedWarps + warp_) * kStreamedRows + lane_ / 4;
      to[0] = sums[0];
      to[kWeightTileRows] = sums[1];
    }
  }

  /// A warp has read a stage.
  __device__ void leave(int stage) {
    __syncwarp();
    if (is_chosen_lane()) {
      arrive(&empty_[stage]);
    }
  }

  /// Computes the block's pairs, as many at a time as have room for their parts: `compute(first,
  /// last)` keeps those of pairs from `first` on.
  template <typename Compute>
  __device__ void in_shares(Around& around, float square, const Compute& compute) {
#pragma unroll 1
    for (int first = first_; first < last_; first += shape_.kept) {
      const int last = min(first + shape_.kept, last_);
      if (first != first_) {
        meet_first_threads<kThreads>();
      }
      compute(first, last);
      if (first == first_) {
        keep_square(square);
      }
      meet_first_threads<kThreads>();
      write(around, first, last);
    }
  }

 private:
  __device__ void keep_square(float square) {
    if (p_.norm == nullptr) {
      return;
    }
#pragma unroll
    for (int reach = 16; reach > 0; reach /= 2) {
      square += __shfl_xor_sync(kAllLanes, square, reach);
    }
    if (lane_ == 0) {
      squares_[warp_] = square;
    }
  }

  /// One over the root of the mean square.
  __device__ float inverse() const {
    if (p_.norm == nullptr) {
      return 1.0f;
    }
    float all = 0.0f;
#pragma unroll
    for (int i = 0; i < kStreamedWarps; ++i) {
      all += squares_[i];
    }
    return rsqrtf(__fdividef(all, static_cast<float>(p_.k)) + p_.epsilon);
  }

  /// Puts the parts of pairs together; `around` is of the first 256 columns of the block.
  __device__ void write(Around& around, int first, int last) const {
    const float factor = inverse();
    const int shift = is_gated_ ? 3 : 4;
    const int from = first << shift;
    const int count = min((last - first) << shift, columns() - from);
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += kThreads) {
      if (first != first_ || i >= kThreads) {
        fetch_constants(around, from + i);
        around.residual = bits_of(p_.residual, from + i);
      }
      const int pair = i >> shift;
      const int row = i & ((1 << shift) - 1);
      float value = sum_of(pair, row, factor, around.scale[0], around.bias[0]);
      if (is_gated_) {
        value = activated(value, p_.gate) *
                sum_of(pair, row + kWeightTileRows, factor, around.scale[1], around.bias[1]);
      }
      static_cast<T*>(p_.out)[from + i] = static_cast<T>(value + number(around.residual));
    }
  }

  __device__ float sum_of(int pair, int row, float factor, uint32_t scale, uint32_t bias) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kStreamedWarps; ++i) {
      sum += parts_[(pair * kStreamedWarps + i) * kStreamedRows + row];
    }
    return sum * (factor * scale_number(scale)) + number(bias);
  }

 protected:
  const OneRowProduct& p_;
  const StreamedShape& shape_;
  const int lane_;
  const int warp_;
  const int chunks_;  ///< of the row
  const int pieces_;  ///< of the row, a stage each
  const int first_;   ///< of the block's pairs
  const int last_;
  const bool is_gated_;

 private:
  float* parts_;    ///< [kept, warps, rows]
  float* squares_;  ///< [warps]

 protected:
  Arrivals* full_;   ///< [stages]
  Arrivals* empty_;  ///< [stages]

 private:
  volatile int32_t* has_row_;  ///< whether the row is there
};

}  // namespace aoti_plugins::cuda

// Two blocks have room beside each other: one that computes, one whose weights are on their way.
#define AOTIP_STREAMED_KERNEL(NAME, PRODUCT, ...)                                             \
  extern "C" __global__ void __launch_bounds__(kStreamedWarps * 32 + 32, 2)                   \
      NAME(const PRODUCT p, const StreamedShape shape) {                                      \
    AOTIP_STREAMED_BODY((__VA_ARGS__(p, shape, static_cast<char*>(launched_memory())).run())) \
  }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define AOTIP_STREAMED_BODY(BODY) BODY;
#else
#define AOTIP_STREAMED_BODY(BODY) __trap();
#endif
