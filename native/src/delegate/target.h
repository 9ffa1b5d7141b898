#pragma once

#include <string>

#include "delegate/payload.h"
#include "slim/status.h"

namespace aoti_plugins {

/// The machine this runs on, in the words of payloads: "x86_64", "aarch64", "arm64-apple-macos", ….
AOTIP_CORE const char* host_machine() noexcept;

/// Whether the processor has a feature by its name in payloads ("avx2", "fma", "avx512f", …). Names
/// that are not known here are not there.
bool host_has_feature(const std::string& feature) noexcept;

/// The features of this processor that `host_has_feature()` knows, separated by spaces.
std::string host_features();

/// "name (machine feature …); …" for each target of a program. A feature that `misses` says so of
/// has " [missing here]" behind it.
AOTIP_CORE std::string describe_targets(const Payload& payload,
                                        bool (*misses)(const TargetArtifact& target,
                                                       const std::string& feature) = nullptr);

/// Picks the target whose code this machine can run: the one that needs most features, the first of
/// equals. The reason of a failure lists what the program was made for and what this machine has.
Status choose_target(const Payload& payload, const TargetArtifact** ret) noexcept;

}  // namespace aoti_plugins
