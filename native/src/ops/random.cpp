#include "ops/random.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <random>

namespace aoti_plugins::ops {
namespace {

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): a counter
/// with this step, and a function that mixes its bits.
constexpr uint64_t kStep = 0x9e3779b97f4a7c15U;

uint64_t mix(uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

int first_seed() noexcept {
  try {
    return static_cast<int>(std::random_device{}());
  } catch (const std::exception&) {  // no source of randomness on this system: the time will do
    return static_cast<int>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
}

/// One step and one mix apart, the sequences of neighbouring seeds have nothing in common.
uint64_t start_of(int seed) noexcept {
  return mix(static_cast<uint64_t>(static_cast<uint32_t>(seed)) + kStep);
}

struct Sequence {
  std::atomic<int> seed{first_seed()};
  std::atomic<uint64_t> counter{start_of(seed.load())};
};

Sequence& sequence() noexcept {
  static Sequence one;
  return one;
}

}  // namespace

int random_seed() noexcept {
  return sequence().seed.load(std::memory_order_relaxed);
}

void set_random_seed(int seed) noexcept {
  sequence().seed.store(seed, std::memory_order_relaxed);
  sequence().counter.store(start_of(seed), std::memory_order_relaxed);
}

uint64_t random_bits() noexcept {
  return mix(sequence().counter.fetch_add(kStep, std::memory_order_relaxed));
}

int64_t random_between(int64_t low, int64_t high) noexcept {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  // The upper half of the product: each number comes up 2^64 / range times, up to one.
  __extension__ using Wide = unsigned __int128;
  const auto offset = static_cast<uint64_t>((Wide{random_bits()} * range) >> 64);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

}  // namespace aoti_plugins::ops
