#pragma once

#include <cstdint>

#include "slim/export.h"

/// The random numbers of all our delegates: what generated code on a GPU draws begins with seeds
/// from here, too.

namespace aoti_plugins::ops {

/// The seed of the process's random numbers: what `set_random_seed()` was given last, or a number
/// that differs from process to process.
AOTIP_CORE int random_seed() noexcept;

/// Starts the process's sequence of random numbers anew, all of it decided by `seed`.
AOTIP_CORE void set_random_seed(int seed) noexcept;

/// The next 64 random bits. Threads may ask at once; each gets bits of its own.
uint64_t random_bits() noexcept;

/// The next random number from `low` to `high - 1`; `low` is below `high`.
AOTIP_CORE int64_t random_between(int64_t low, int64_t high) noexcept;

}  // namespace aoti_plugins::ops
