#pragma once

/// What kernels of attention of one token are told. Read by the host code and by the kernels.

#include <cstdint>

namespace aoti_plugins::cuda {

inline constexpr int32_t kTokenWarps = 8;

/// Positions that a block has at a time, 16 for each warp.
inline constexpr int32_t kTokenChunk = kTokenWarps * 16;

/// The most blocks that share the positions: a cluster of any GPU.
inline constexpr int32_t kMostSharers = 8;

/// What kernels want to know of a mask.
struct AttendedRange {
  int32_t begin;     ///< the first position that is attended to
  int32_t end;       ///< behind the last one; not over begin if there is none
  int32_t is_whole;  ///< whether all between are
  int32_t unused;
};

inline constexpr int32_t kRangeThreads = 1024;

/// Heads of a query that a block has at a time.
inline constexpr int32_t kTokenHeads = 8;

/// Bytes of shared memory, for heads of SIZE elements: what warps and blocks found, and the token's
/// own rows.
template <int32_t SIZE>
inline constexpr int32_t kTokenAttentionNbytes =
    (kTokenWarps + kMostSharers) * kTokenHeads * (SIZE + 4) * 4 + (kTokenHeads + 2) * SIZE * 2;

/// One token's query attends to a cache, to which its key and value are written before. Query and
/// key are rotated on the way: x * cos + (-x[d / 2:], x[:d / 2]) * sin. All are 16-bit floats of
/// one kind, rows without gaps, aligned to 16 bytes; steps are in elements.
struct TokenAttention {
  const void* query;       ///< [heads, head_dim]
  const void* key;         ///< [kv_heads, head_dim]
  const void* value;       ///< likewise
  const void* cos;         ///< [head_dim]
  const void* sin;         ///< [head_dim]
  const void* query_norm;  ///< [head_dim], or null: factors of a root-mean-square norm of each head
  const void* key_norm;    ///< likewise
  void* keys;              ///< [kv_heads, capacity, head_dim]
  void* values;            ///< likewise
  const int64_t* position;  ///< of the token
  const bool* mask;         ///< [capacity]: which positions are attended to; null for all
  const int32_t* range;     ///< AttendedRange of the mask; null for all
  void* out;                ///< [heads, head_dim]
  int32_t* fault;           ///< gets kFaultIndex for a position outside of the cache; or null
  int64_t query_step;       ///< from head to head
  int64_t key_step;
  int64_t value_step;
  int64_t keys_step;  ///< from head to head of the cache
  int64_t values_step;
  int32_t keys_row;  ///< from position to position
  int32_t values_row;
  int32_t heads;
  int32_t kv_heads;
  int32_t capacity;
  int32_t sharers;  ///< blocks of a cluster, a power of two
  float scale;      ///< of the scores
  float epsilon;    ///< of the norms
};

}  // namespace aoti_plugins::cuda
