#pragma once

/// What the kernel of histograms takes. Read by the host code and by kernels/histogram.cu.

#include <cstdint>

namespace aoti_plugins::cuda {

/// The most intervals that a block counts in its own memory.
inline constexpr int32_t kHistogramBins = 4096;
inline constexpr unsigned int kHistogramThreads = 512;

/// Elements of each thread, so that the totals of a block are worth adding up.
inline constexpr int64_t kHistogramElements = 16;

}  // namespace aoti_plugins::cuda
