#pragma once

// What products with weights in blocks of GGUF files are, and what all devices check of them.

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::ops {

/// The arguments of `aoti_plugins::gguf_linear`: aoti_plugins/operators.inc says what they are.
struct GgufLinear {
  const Tensor* x;
  const Tensor* blocks;
  const Tensor* bias;  ///< null for none
  const char* kind;
};

/// Weights of a block.
inline constexpr int64_t kGgufBlock = 256;

/// Bytes of a block, by the bits of the kind's name.
constexpr int64_t gguf_block_nbytes(int32_t bits) {
  return bits == 4 ? 144 : bits == 5 ? 176 : 210;
}

/// The sizes of a product, after all checks.
struct GgufLinearSizes {
  int64_t m;
  int64_t n;
  int64_t k;
  int32_t bits;  ///< of the kind's name: 4, 5 or 6
};

/// Fails, with a reason, where an argument does not fit.
AOTIP_CORE Status check_gguf_linear(const GgufLinear& linear, GgufLinearSizes* ret) noexcept;

}  // namespace aoti_plugins::ops
