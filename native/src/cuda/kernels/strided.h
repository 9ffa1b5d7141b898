#pragma once

/// What the strided kernels are told. Read by the host code and by kernels/strided.cu.

#include <cstdint>

namespace aoti_plugins::cuda {

inline constexpr int32_t kStridedMaxDims = 16;

/// The loops of a copy: sizes, and how many elements a step moves on in either tensor. The first
/// dimension runs fastest.
struct StridedLoops {
  int64_t numel;
  int32_t ndim;
  int64_t sizes[kStridedMaxDims];
  int64_t dst[kStridedMaxDims];
  int64_t src[kStridedMaxDims];
};

/// One element of any dtype, as bytes.
struct alignas(16) ElementBytes {
  unsigned char bytes[16];
};

}  // namespace aoti_plugins::cuda
