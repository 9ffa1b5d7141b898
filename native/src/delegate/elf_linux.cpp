#include <elf.h>

#include <cstdio>
#include <cstring>

#include "delegate/elf.h"
#include "delegate/target.h"

namespace aoti_plugins {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kHostElfMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kHostElfMachine = EM_AARCH64;
#else
constexpr uint16_t kHostElfMachine = EM_NONE;
#endif

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
              header.e_ident[EI_CLASS] == ELFCLASS64 ? "" : " (32 bit)", host_machine());
  AOTIP_CHECK(header.e_type == ET_DYN, "blob '%s' is not a shared object (ELF type %u)",
              key.c_str(), header.e_type);
  return check_segments(header, data, nbytes, key);
}

}  // namespace aoti_plugins
