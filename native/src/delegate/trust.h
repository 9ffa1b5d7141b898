#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "delegate/payload_signatures.h"
#include "slim/status.h"

namespace aoti_plugins {

/// Whose programs this process runs; docs/security.md. Whatever goes wrong with a demand for
/// signatures, programs are refused from then on, and none is ever taken back.

/// Demands that programs are signed by one of these keys, besides earlier demands; no keys mean no
/// programs.
void require_signatures(std::vector<Ed25519Key> keys);

/// Refuses all programs from here on, with a reason.
void refuse_programs(const std::string& reason) noexcept;

/// Whether signatures are demanded, by this process or by its environment.
bool signatures_required() noexcept;

/// Fails for a payload that lacks a signature that is demanded, or has no room for any.
Status check_signatures(const void* payload, size_t nbytes) noexcept;

/// The keys in the text of a PEM file: each "PUBLIC KEY" of Ed25519 (RFC 8410). `name` is for
/// messages.
Status read_public_keys(const std::string& text, const std::string& name,
                        std::vector<Ed25519Key>* ret);

}  // namespace aoti_plugins
