#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "slim/export.h"

namespace aoti_plugins {

using Sha256 = std::array<uint8_t, 32>;

/// SHA-256 (FIPS 180-4), with the processor's own instructions where it has them: about 2 GB/s
/// then, a tenth of that otherwise.
AOTIP_CORE Sha256 sha256(const void* data, size_t nbytes) noexcept;

/// 64 hex digits.
AOTIP_CORE std::string hex_digits(const Sha256& digest);

/// Adds `count` blocks of 64 bytes to a state of eight words.
using Sha256Blocks = void (*)(uint32_t state[8], const uint8_t* data, size_t count) noexcept;

/// The round constants.
extern const uint32_t kSha256Rounds[64];

/// Runs on every processor.
void sha256_blocks(uint32_t state[8], const uint8_t* data, size_t count) noexcept;

/// With the processor's instructions for it; null where this one, or this build, has none.
Sha256Blocks accelerated_sha256() noexcept;

}  // namespace aoti_plugins
