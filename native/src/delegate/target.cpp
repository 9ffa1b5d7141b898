#include "delegate/target.h"

#include <elf.h>

#include <cstring>
#include <exception>

namespace aoti_plugins {
namespace {

#if defined(__x86_64__)
constexpr const char* kHostMachine = "x86_64";
constexpr uint16_t kHostElfMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr const char* kHostMachine = "aarch64";
constexpr uint16_t kHostElfMachine = EM_AARCH64;
#else
constexpr const char* kHostMachine = "unknown";
constexpr uint16_t kHostElfMachine = EM_NONE;
#endif

struct Feature {
  const char* name;
  bool present;
};

#if defined(__x86_64__)
#define AOTIP_FEATURE(name, builtin) {name, __builtin_cpu_supports(builtin) != 0}
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
#else
  (void)visit;
#endif
}

bool runs_here(const TargetArtifact& target) {
  if (target.machine != kHostMachine) {
    return false;
  }
  for (const std::string& feature : target.features) {
    if (!host_has_feature(feature)) {
      return false;
    }
  }
  return true;
}

std::string describe_targets(const Payload& payload) {
  std::string text;
  for (const TargetArtifact& target : payload.targets) {
    text += text.empty() ? "" : "; ";
    text += target.name + " (" + target.machine;
    for (const std::string& feature : target.features) {
      text += " " + feature;
      if (target.machine == kHostMachine && !host_has_feature(feature)) {
        text += " [missing here]";
      }
    }
    text += ")";
  }
  return text;
}

/// Whether [offset, offset + count) lies in a file of `nbytes`.
bool in_file(uint64_t offset, uint64_t count, size_t nbytes) {
  return offset <= nbytes && count <= nbytes - offset;
}

/// The dynamic linker maps segments without asking how long the file is, and touching what is not
/// there kills the process.
Status check_segments(const Elf64_Ehdr& header, const void* data, size_t nbytes,
                      const std::string& key) {
  const uint64_t table_nbytes = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  AOTIP_CHECK(header.e_phnum > 0 && header.e_phentsize == sizeof(Elf64_Phdr) &&
                  in_file(header.e_phoff, table_nbytes, nbytes),
              "blob '%s' is a damaged ELF file: its table of segments is not in its %zu bytes",
              key.c_str(), nbytes);
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, static_cast<const char*>(data) + header.e_phoff + i * sizeof(segment),
                sizeof(segment));
    AOTIP_CHECK(segment.p_type != PT_LOAD || in_file(segment.p_offset, segment.p_filesz, nbytes),
                "blob '%s' is a truncated ELF file: segment %u ends at byte %llu, the file at %zu",
                key.c_str(), i,
                static_cast<unsigned long long>(segment.p_offset + segment.p_filesz), nbytes);
  }
  return Status::kOk;
}

const char* elf_machine_name(uint16_t machine, char* buffer, size_t nbytes) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390";
    default:
      snprintf(buffer, nbytes, "ELF machine %u", machine);
      return buffer;
  }
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
        describe_targets(payload).c_str(), kHostMachine, host_features().c_str());
    *ret = best;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("choosing a target: %s", error.what());
  }
}

Status check_elf(const void* data, size_t nbytes, const std::string& key) noexcept {
  Elf64_Ehdr header;
  AOTIP_CHECK(nbytes >= sizeof(header), "blob '%s' has %zu bytes, too few for a shared object",
              key.c_str(), nbytes);
  std::memcpy(&header, data, sizeof(header));
  AOTIP_CHECK(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0,
              "blob '%s' is not an ELF file (its first bytes are %02x%02x%02x%02x)", key.c_str(),
              header.e_ident[0], header.e_ident[1], header.e_ident[2], header.e_ident[3]);
  char buffer[32];
  AOTIP_CHECK(header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kHostElfMachine,
              "blob '%s' is for %s%s, this machine is %s. Lower the model for this machine.",
              key.c_str(), elf_machine_name(header.e_machine, buffer, sizeof(buffer)),
              header.e_ident[EI_CLASS] == ELFCLASS64 ? "" : " (32 bit)", kHostMachine);
  AOTIP_CHECK(header.e_type == ET_DYN, "blob '%s' is not a shared object (ELF type %u)",
              key.c_str(), header.e_type);
  return check_segments(header, data, nbytes, key);
}

}  // namespace aoti_plugins
