#pragma once

#include <string>

#include "delegate/payload.h"
#include "slim/status.h"

namespace aoti_plugins::mps {

/// The oldest macOS for which a target is, by its feature "macos<major>.<minor>", as 100 * major +
/// minor; 0 when it names none.
int minimum_macos(const TargetArtifact& target) noexcept;

/// Picks the target for this machine and version of macOS: of those that can run, the one for the
/// newest system. The reason of a failure lists what the program was made for and what is here.
///
/// @param macos as `macos_version()`; 0 where the system is another one and no version counts.
Status choose_mps_target(const Payload& payload, int macos, const TargetArtifact** ret) noexcept;

}  // namespace aoti_plugins::mps
