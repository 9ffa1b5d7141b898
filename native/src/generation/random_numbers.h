#pragma once

#include <cstdint>

namespace aoti_plugins::generation {

/// The random numbers of `numpy.random.default_rng(seed)`: PCG-64 (O'Neill, "PCG: A Family of
/// Simple Fast Space-Efficient Statistically Good Algorithms", 2014), seeded as numpy's
/// `SeedSequence` does. So a seed chooses the same tokens from Python and from here.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed);

  /// The next number, from 0 to below 1, with 53 random bits.
  double next();

 private:
  __extension__ using Wide = unsigned __int128;

  void step();

  Wide state_ = 0;
  Wide increment_;
};

}  // namespace aoti_plugins::generation
