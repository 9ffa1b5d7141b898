#include "delegate/target.h"

#include <algorithm>
#include <exception>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

namespace aoti_plugins {
namespace {

#if defined(__APPLE__) && defined(__aarch64__)
constexpr const char* kHostMachine = "arm64-apple-macos";
#elif defined(__APPLE__) && defined(__x86_64__)
constexpr const char* kHostMachine = "x86_64-apple-macos";
#elif defined(__x86_64__)
constexpr const char* kHostMachine = "x86_64";
#elif defined(__aarch64__)
constexpr const char* kHostMachine = "aarch64";
#else
constexpr const char* kHostMachine = "unknown";
#endif

struct Feature {
  const char* name;
  bool present;
};

#if defined(__x86_64__)
#define AOTIP_FEATURE(name, builtin) {name, __builtin_cpu_supports(builtin) != 0}
#elif defined(__aarch64__)
/// Linux tells of extensions of Arm machines in bits (`HWCAP2_BF16` of its asm/hwcap.h).
bool has_bf16() noexcept {
#if defined(__linux__)
  constexpr unsigned long kBf16 = 1UL << 14;
  return (getauxval(AT_HWCAP2) & kBf16) != 0;
#else
  return false;
#endif
}

/// Whether vectors of SVE have 256 bits in this process: code for that many is right for no other
/// number. (`PR_SVE_GET_VL` of linux/prctl.h, bytes in its low half.)
bool has_sve256() noexcept {
#if defined(__linux__)
  constexpr int kGetVectorLength = 51;
  const int found = prctl(kGetVectorLength);
  return found >= 0 && (found & 0xffff) == 32;
#else
  return false;
#endif
}
#endif

/// Calls `visit` with every feature we know, under all names that payloads may use.
template <typename Visit>
void for_each_feature(const Visit& visit) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const Feature features[] = {
      AOTIP_FEATURE("sse2", "sse2"),
      AOTIP_FEATURE("sse3", "sse3"),
      AOTIP_FEATURE("ssse3", "ssse3"),
      AOTIP_FEATURE("sse4_1", "sse4.1"),
      AOTIP_FEATURE("sse4_2", "sse4.2"),
      AOTIP_FEATURE("popcnt", "popcnt"),
      AOTIP_FEATURE("avx", "avx"),
      AOTIP_FEATURE("f16c", "f16c"),
      AOTIP_FEATURE("fma", "fma"),
      AOTIP_FEATURE("bmi1", "bmi"),
      AOTIP_FEATURE("bmi2", "bmi2"),
      AOTIP_FEATURE("avx2", "avx2"),
      AOTIP_FEATURE("avx512f", "avx512f"),
      AOTIP_FEATURE("avx512cd", "avx512cd"),
      AOTIP_FEATURE("avx512vl", "avx512vl"),
      AOTIP_FEATURE("avx512bw", "avx512bw"),
      AOTIP_FEATURE("avx512dq", "avx512dq"),
      AOTIP_FEATURE("avx512_vnni", "avx512vnni"),
      AOTIP_FEATURE("avx512_bf16", "avx512bf16"),
  };
  for (const Feature& feature : features) {
    visit(feature);
  }
#elif defined(__aarch64__)
  visit(Feature{"asimd", true});
  visit(Feature{"neon", true});
  visit(Feature{"bf16", has_bf16()});
  visit(Feature{"sve256", has_sve256()});
#else
  (void)visit;
#endif
}

bool runs_here(const TargetArtifact& target) {
  return target.machine == kHostMachine &&
         std::all_of(target.features.begin(), target.features.end(), host_has_feature);
}

bool is_missing_here(const TargetArtifact& target, const std::string& feature) {
  return target.machine == kHostMachine && !host_has_feature(feature);
}

}  // namespace

const char* host_machine() noexcept {
  return kHostMachine;
}

bool host_has_feature(const std::string& name) noexcept {
  bool found = false;
  for_each_feature([&](const Feature& f) { found = found || (f.present && name == f.name); });
  return found;
}

std::string host_features() {
  std::string text;
  for_each_feature([&](const Feature& f) {
    if (f.present) {
      text += text.empty() ? "" : " ";
      text += f.name;
    }
  });
  return text;
}

std::string describe_targets(const Payload& payload,
                             bool (*misses)(const TargetArtifact&, const std::string&)) {
  std::string text;
  for (const TargetArtifact& target : payload.targets) {
    text += (text.empty() ? "" : "; ") + target.name + " (" + target.machine;
    for (const std::string& feature : target.features) {
      text += " " + feature;
      text += misses != nullptr && misses(target, feature) ? " [missing here]" : "";
    }
    text += ")";
  }
  return text;
}

Status choose_target(const Payload& payload, const TargetArtifact** ret) noexcept {
  try {
    const TargetArtifact* best = nullptr;
    for (const TargetArtifact& target : payload.targets) {
      if (runs_here(target) &&
          (best == nullptr || target.features.size() > best->features.size())) {
        best = &target;
      }
    }
    AOTIP_CHECK(
        best != nullptr,
        "no code for this machine. The program was made for %s; this machine is %s with %s. "
        "Lower the model for this machine.",
        describe_targets(payload, is_missing_here).c_str(), kHostMachine, host_features().c_str());
    *ret = best;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("choosing a target: %s", error.what());
  }
}

}  // namespace aoti_plugins
