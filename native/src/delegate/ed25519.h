#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "delegate/payload_signatures.h"
#include "slim/status.h"

namespace aoti_plugins {

/// Whether a signature of Ed25519 over a message is by a key. OpenSSL's libcrypto or libsodium
/// answers, whichever is found when it is first asked for.
///
/// Fails, with a reason that says what to install, where neither is here.
Status verify_ed25519(const Ed25519Key& key, const void* message, size_t nbytes,
                      const uint8_t* signature, bool* ret_right) noexcept;

}  // namespace aoti_plugins
