#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slim/status.h"

namespace aoti_plugins {

using Ed25519Key = std::array<uint8_t, 32>;

/// A signature over a payload; aoti_plugins/payload/signatures.py, which must match, writes it.
struct PayloadSignature {
  Ed25519Key key{};
  std::array<uint8_t, 64> signature{};
};

inline constexpr size_t kMostSignatures = 4;
/// Bytes at the end of a payload of version 2: places for signatures, and their checksum.
inline constexpr size_t kSignaturesNbytes = kMostSignatures * sizeof(PayloadSignature) + 4;

/// Reads the signatures at the end of a payload of version 2; who made them is not checked.
Status read_signatures(const uint8_t* data, size_t nbytes, std::vector<PayloadSignature>* ret);

/// What a signature signs: what it is, and all bytes of a payload of version 2 before the
/// signatures.
std::vector<uint8_t> message_to_sign(const uint8_t* data, size_t nbytes);

}  // namespace aoti_plugins
