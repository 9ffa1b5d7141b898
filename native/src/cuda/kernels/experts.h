#pragma once

/// What kernels are told of products of rows with matrices of experts, which weights of 4 and 8
/// bits are one behind the other.

#include <cstdint>

#include "cuda/kernels/one_row.h"

namespace aoti_plugins::cuda {

/// The most experts whose rows are put in order.
inline constexpr int32_t kMostExperts = 4096;

/// Threads of the one block that puts rows in order.
inline constexpr int32_t kExpertThreads = 1024;

/// Rows of a block that have the same expert.
inline constexpr int32_t kExpertRows = 16;

/// A router's choice: the experts with the largest scores, and their shares of all scores.
struct ExpertChoice {
  const void* scores;     ///< [rows, count]
  float* shares;          ///< [rows, chosen]
  int64_t* experts;       ///< [rows, chosen], the largest first
  int32_t count;          ///< kMostScores at most
  int32_t chosen;         ///< kMostChosen at most
  int32_t lanes;          ///< for each score: a power of two, 32 and kMostScores / count at most
  int32_t is_normalised;  ///< whether the shares are those of the chosen ones: their sum is 1
};

/// The most experts that a router can choose of, and the most that it can choose.
inline constexpr int32_t kMostScores = 512;
inline constexpr int32_t kMostChosen = 32;

/// What a block that chooses has in shared memory. It has a thread for each lane of each score.
struct ExpertScores {
  float scores[kMostScores];
  uint32_t numbers[kMostScores];  ///< by which scores are ordered
  int32_t chosen[kMostChosen];    ///< experts, that with the largest score first
};

/// A product of one row with matrices of experts below each other, `n` and `out` of all of them.
/// With `factors` each has a row of its own, `k` and `x` of all of them, and the results are added
/// up: rows are a multiple of a chunk then. A gate is of each expert by itself.
struct ExpertProduct : OneRowProduct {
  const int64_t* experts;  ///< [chosen]; below 0 from the end
  const float* factors;    ///< [chosen], or null
  int32_t count;           ///< of all experts
  int32_t chosen;
  int32_t tiles;      ///< of 8 rows of an expert's matrix, an even number
  int32_t is_second;  ///< whether a kernel in front waited for the same experts' numbers
};

/// Rows with one expert, of those in order.
struct ExpertBlock {
  int32_t expert;
  int32_t first;
  int32_t rows;
};

/// Rows are put in order, by their experts.
struct ExpertOrder {
  const int64_t* experts;  ///< [rows]
  int32_t* order;          ///< [rows]: numbers of rows, one expert's behind the other's
  ExpertBlock* blocks;     ///< [most_blocks]; behind the last one without rows
  int32_t rows;
  int32_t count;        ///< of all experts, kMostExperts at most
  int32_t most_blocks;  ///< rows / kExpertRows + count at least
};

/// Products of many rows. `product` is of one expert's matrix, the first one's; `x_step` counts.
struct ExpertRowsProduct {
  SmallWeightProduct product;
  const int64_t* experts;     ///< [rows]
  const int32_t* order;       ///< null: a block for each row, in order
  const ExpertBlock* blocks;  ///< null likewise
  int32_t count;              ///< of all experts
  int32_t repeats;            ///< rows of the result for each row of x
  int32_t tile_blocks;        ///< blocks for all columns
};

/// Rows of results are added up, times factors.
struct ExpertSums {
  const void* product;   ///< [m, chosen, n]
  const float* factors;  ///< [m, chosen]
  const void* residual;  ///< [m, n], or null
  void* out;             ///< [m, n]
  int64_t n;
  int64_t numel;  ///< of out
  int32_t chosen;
};

}  // namespace aoti_plugins::cuda
