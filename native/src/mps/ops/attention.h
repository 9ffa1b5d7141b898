#pragma once

#include "slim/tensor.h"

namespace aoti_plugins::mps {

/// One call of scaled dot-product attention: `query` [..., heads, rows, d], `key` [..., key heads,
/// keys, d], `value` [..., key heads, keys, dv]; key heads divide heads. All of one dtype (float32,
/// float16, bfloat16), with any strides.
struct Attention {
  const Tensor* query;
  const Tensor* key;
  const Tensor* value;
  const Tensor* mask;  ///< bool, or a float dtype; broadcasts to [..., heads, rows, keys]; or null
  bool causal;         ///< row i sees the keys up to i
  double scale;
};

/// The result [..., heads, rows, dv], row-major; null, with a reason, when it fails.
Tensor* attention(const Attention& call) noexcept;

}  // namespace aoti_plugins::mps
