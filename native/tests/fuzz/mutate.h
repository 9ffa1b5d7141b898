#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

/// Changes a few bytes in place: what damage, and somebody who tries, do to a file. Words are
/// swapped, zeroed, counted up and down, and replaced by limits of their type, because counts,
/// indices and offsets are words.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  void mutate(uint8_t* data, size_t nbytes);

  /// How many bytes of `nbytes` to keep: all, and now and then fewer.
  size_t cut(size_t nbytes) { return below(16) == 0 && nbytes > 0 ? below(nbytes) : nbytes; }

 private:
  void mutate_once(uint8_t* data, size_t nbytes);
  size_t below(size_t limit) { return static_cast<size_t>(random_() % limit); }

  std::mt19937_64 random_;
};
