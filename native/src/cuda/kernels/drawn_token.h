#pragma once

/// What the kernels that draw a token take. Read by the host code and by kernels/drawn_token.cu.

#include <cstdint>

namespace aoti_plugins::cuda {

inline constexpr uint32_t kDrawThreads = 256;
inline constexpr uint32_t kMostDrawBlocks = 128;

/// The most tokens: so many shares of at most `kDrawUnits` have a sum that fits into 64 bits.
inline constexpr int64_t kMostDrawn = (int64_t{1} << 20) - 1;

/// Shares are whole numbers of units, so that their sums are the same in any order; the likeliest
/// token has so many. What is rounded to none is not drawn.
inline constexpr double kDrawUnits = 17592186044416.0;  // 2^44

/// How far a logit may lie below the largest, over the temperature, to have a share: log(2^45).
inline constexpr double kDrawDepth = 32;

/// Tokens are sorted into so many intervals of depth, of which only those that a limit falls into
/// are looked at closer.
inline constexpr uint32_t kDrawBins = 2048;

/// What is known so far; in memory of the GPU.
struct DrawState {
  // Zero before the first token is sorted.
  uint64_t shares[kDrawBins];  ///< sums of the intervals
  uint32_t counts[kDrawBins];
  uint32_t arrived[4];  ///< blocks that are done, of each kernel that has more to do behind them
  uint32_t n_listed[2];
  // Written before it is read.
  double likeliest[kMostDrawBlocks];       ///< the largest logit of each block
  uint64_t block_shares[kMostDrawBlocks];  ///< what each block's tokens have that may be drawn
  double most;                             ///< the largest logit
  int32_t last_bin;                        ///< where top-k ends; -1: nowhere
  uint32_t last_rank;                      ///< which token of that interval is its last one, from 1
  uint64_t above_last;                     ///< shares of the intervals before it
  uint64_t last_depth;                     ///< bits of the depth to which top-k goes
  int32_t cut_bin;                         ///< where top-p ends; -1: nowhere
  uint64_t cut_share;  ///< how much of that interval's shares it takes, the last token's begun
  uint64_t cut_depth;  ///< bits of the depth to which top-p goes
  uint32_t cut_token;  ///< and of tokens of this depth, up to this one
};

/// A choice. `logits [n_tokens]`, `settings [6]`: penalty (done), temperature, top-k, top-p, min-p
/// and a random number from 0 to below 1.
struct Draw {
  const double* logits;
  const double* settings;
  int64_t* token;
  DrawState* state;
  uint32_t* listed;  ///< room for all tokens
  uint32_t n_tokens;
  uint32_t per_block;
};

}  // namespace aoti_plugins::cuda
