#include "generation/random_numbers.h"

#include <array>
#include <cstddef>

namespace aoti_plugins::generation {
namespace {

constexpr size_t kWords = 4;  // of the pool of a seed

/// Numpy's mixing of a seed's words: a pool of 32-bit words that each depend on all of the seed.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const std::array<uint32_t, kWords> entropy = {static_cast<uint32_t>(seed),
                                                  static_cast<uint32_t>(seed >> 32), 0, 0};
    uint32_t factor = 0x43b0d7e5;
    for (size_t i = 0; i < kWords; ++i) {
      pool_[i] = hashed(entropy[i], &factor, 0x931e8875);
    }
    for (size_t from = 0; from < kWords; ++from) {
      for (size_t to = 0; to < kWords; ++to) {
        if (from != to) {
          pool_[to] = mixed(pool_[to], hashed(pool_[from], &factor, 0x931e8875));
        }
      }
    }
  }

  /// `kWords` words of 64 bits.
  std::array<uint64_t, kWords> words() const {
    std::array<uint64_t, kWords> result{};
    uint32_t factor = 0x8b51f9dd;
    for (size_t i = 0; i < 2 * kWords; ++i) {
      const uint64_t half = hashed(pool_[i % kWords], &factor, 0x58f38ded);
      result[i / 2] |= half << (i % 2 * 32);
    }
    return result;
  }

 private:
  static uint32_t hashed(uint32_t value, uint32_t* factor, uint32_t multiplier) {
    value ^= *factor;
    *factor *= multiplier;
    value *= *factor;
    return value ^ (value >> 16);
  }

  static uint32_t mixed(uint32_t one, uint32_t other) {
    const uint32_t value = 0xca01f9ddU * one - 0x4973f715U * other;
    return value ^ (value >> 16);
  }

  std::array<uint32_t, kWords> pool_{};
};

}  // namespace

RandomNumbers::RandomNumbers(uint64_t seed) {
  const std::array<uint64_t, kWords> words = SeedSequence(seed).words();
  increment_ = ((Wide{words[2]} << 64 | words[3]) << 1) | 1;
  step();
  state_ += Wide{words[0]} << 64 | words[1];
  step();
}

double RandomNumbers::next() {
  step();
  const auto high = static_cast<uint64_t>(state_ >> 64);
  const uint64_t folded = high ^ static_cast<uint64_t>(state_);
  const auto turn = static_cast<uint32_t>(high >> 58);
  const uint64_t bits = folded >> turn | folded << (-turn & 63);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

void RandomNumbers::step() {
  constexpr Wide kMultiplier = Wide{2549297995355413924U} << 64 | 4865540595714422341U;
  state_ = state_ * kMultiplier + increment_;
}

}  // namespace aoti_plugins::generation
