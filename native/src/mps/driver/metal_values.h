#pragma once

/// Metal's own numbers and structures. native/tools/check_metal_names.py compares them with
/// metal-cpp: `k` and the name without Metal's `MTL`.

namespace aoti_plugins::mps {

/// NSUInteger.
using UInteger = unsigned long;

/// MTLSize, which methods take by value.
struct MetalSize {
  UInteger width;
  UInteger height;
  UInteger depth;
};

inline constexpr UInteger kResourceStorageModeShared = 0;
inline constexpr UInteger kLanguageVersion2_4 = 0x20004;
inline constexpr UInteger kLanguageVersion3_0 = 0x30000;
inline constexpr UInteger kLanguageVersion3_1 = 0x30001;
inline constexpr UInteger kLanguageVersion3_2 = 0x30002;
inline constexpr long kMathModeSafe = 0;
inline constexpr UInteger kPipelineOptionNone = 0;
inline constexpr UInteger kCommandBufferStatusError = 5;

}  // namespace aoti_plugins::mps
