#pragma once

/// What kernels over lines are told: all lines of up to three tensors along one dim. Read by the
/// host code and by the kernels.

#include <cstdint>

namespace aoti_plugins::cuda {

inline constexpr int32_t kLinesMaxDims = 15;
inline constexpr int32_t kLinesMaxTensors = 3;

/// In elements. `starts` has, for each tensor, how far apart lines are in each of the other dims;
/// `steps` how far apart the elements of a line are.
struct Lines {
  int64_t count;
  int64_t length;
  int32_t ndim;
  int64_t sizes[kLinesMaxDims];
  int64_t starts[kLinesMaxTensors][kLinesMaxDims];
  int64_t steps[kLinesMaxTensors];
};

/// The most threads of a block of `aotip_scan`.
inline constexpr int32_t kScanThreads = 256;

}  // namespace aoti_plugins::cuda
