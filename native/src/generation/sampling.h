#pragma once

#include <aoti_plugins/generation.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "generation/random_numbers.h"

namespace aoti_plugins::generation {

/// Chooses the tokens of one answer. Must match aoti_plugins/generation/sampling.py.
class Sampler {
 public:
  /// `sampling` was checked by `check_sampling`.
  explicit Sampler(const aotip_sampling& sampling);

  /// Chooses a token.
  ///
  /// @param logits [count], float32.
  /// @param seen The tokens of the prompt and of the answer so far, each below `count`.
  int64_t choose(const float* logits, size_t count, const std::vector<int64_t>& seen);

 private:
  int64_t likeliest(const float* logits, size_t count, const std::vector<int64_t>& seen) const;
  /// Fills `weights_`, which sum to 1 at most: what is left out has none.
  void weigh(const float* logits, size_t count, const std::vector<int64_t>& seen);
  void limit_count();
  void limit_probability();
  void limit_share();

  aotip_sampling sampling_;
  RandomNumbers random_;
  std::vector<double> weights_;
  std::vector<double> sorted_;
};

/// What takes the likeliest token.
aotip_sampling greedy();

/// 0, or a code after `failed()`: a value is outside of its range.
int32_t check_sampling(const aotip_sampling& sampling);

}  // namespace aoti_plugins::generation
