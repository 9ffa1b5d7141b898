#include "mps/session/target.h"

#include <cstdio>
#include <exception>

#include "delegate/target.h"

namespace aoti_plugins::mps {
namespace {

bool runs_here(const TargetArtifact& target, int macos) {
  return target.machine == host_machine() && (macos == 0 || minimum_macos(target) <= macos);
}

}  // namespace

int minimum_macos(const TargetArtifact& target) noexcept {
  for (const std::string& feature : target.features) {
    int major = 0;
    int minor = 0;
    if (std::sscanf(feature.c_str(), "macos%d.%d", &major, &minor) >= 1) {
      return 100 * major + minor;
    }
  }
  return 0;
}

Status choose_mps_target(const Payload& payload, int macos, const TargetArtifact** ret) noexcept {
  try {
    const TargetArtifact* best = nullptr;
    for (const TargetArtifact& target : payload.targets) {
      if (runs_here(target, macos) &&
          (best == nullptr || minimum_macos(target) > minimum_macos(*best))) {
        best = &target;
      }
    }
    const std::string system = macos == 0 ? ""
                                          : " with macOS " + std::to_string(macos / 100) + "." +
                                                std::to_string(macos % 100);
    AOTIP_CHECK(
        best != nullptr,
        "no code for this machine. The program was made for %s; this machine is %s%s. Lower "
        "the model for this machine.",
        describe_targets(payload).c_str(), host_machine(), system.c_str());
    *ret = best;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("choosing a target: %s", error.what());
  }
}

}  // namespace aoti_plugins::mps
