#pragma once

#include <aoti_plugins/shim.h>

#include <cstdint>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// Attention of one token over a cache to which its key and value are written first. All on one
/// GPU; rows of heads are float16 or bfloat16 of one kind, of any strides.
struct CachedAttention {
  const Tensor* query;  ///< [1, heads, 1, d], d is 64 or 128
  const Tensor* key;    ///< [1, kv_heads, 1, d], kv_heads divides heads
  const Tensor* value;  ///< as key
  const Tensor* cos;    ///< d elements: query and key are rotated with them
  const Tensor* sin;    ///< d elements
  const Tensor*
      query_norm;  ///< [d], or null: factors of a norm of each head, in front of the rotation
  const Tensor* key_norm;  ///< [d], or null
  Tensor* keys;            ///< [1, kv_heads, capacity, d]; is written to
  Tensor* values;          ///< as keys
  const Tensor* position;  ///< one int64: of the token in the cache
  const Tensor* mask;      ///< bool, capacity elements, or null: which positions are attended to
  const Tensor* range;     ///< what `attended_range` makes of the mask; null without one
  double scale;            ///< of the scores
  double epsilon;          ///< of the norms
};

/// A new tensor [4] of int32: the first position that a mask (bool, without gaps, on a GPU) lets
/// in, the one behind the last, and whether it lets in all between.
Status attended_range(const Tensor& mask, AtenTensorHandle* ret) noexcept;

/// A new tensor [1, heads, 1, d]; zeros where nothing is attended to. A position outside of the
/// cache is left out and fails the call, as every index out of range does.
Status token_attention(const CachedAttention& attention, AtenTensorHandle* ret) noexcept;

}  // namespace aoti_plugins::cuda
