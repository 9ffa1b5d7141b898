#include <aoti_plugins/blob_prelude.h>
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "delegate/elf.h"
#include "delegate/plain_blob.h"
#include "delegate/sha256.h"
#include "slim/status.h"

namespace aoti_plugins {
namespace {

/// What only we, libtorch or cudart can provide; everything else the dynamic linker looks for.
bool is_ours_to_provide(const std::string& name) {
  for (const char* prefix : {"aoti_torch_", "aoti_record_", "cuda"}) {
    if (name.rfind(prefix, 0) == 0) {
      return true;
    }
  }
  return false;
}

/// A copy of a shared object's file, whose symbols can be changed. Nothing outside of it is read.
class ElfFile {
 public:
  ElfFile(const void* data, size_t nbytes, const std::string& key)
      : bytes_(static_cast<const char*>(data), static_cast<const char*>(data) + nbytes),
        key_(key) {}

  const std::vector<char>& bytes() const { return bytes_; }

  /// Finds the tables of the dynamic linker. `check_elf()` must have passed.
  Status read_tables() {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes_.data(), sizeof(header));
    const Elf64_Phdr* dynamic = nullptr;
    segments_.resize(header.e_phnum);
    std::memcpy(segments_.data(), bytes_.data() + header.e_phoff,
                segments_.size() * sizeof(Elf64_Phdr));
    for (const Elf64_Phdr& segment : segments_) {
      dynamic = segment.p_type == PT_DYNAMIC ? &segment : dynamic;
    }
    AOTIP_CHECK(dynamic != nullptr && in_file(dynamic->p_offset, dynamic->p_filesz),
                "blob '%s' is a damaged ELF file: it has no dynamic section", key_.c_str());
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, bytes_.data() + dynamic->p_offset + at, sizeof(entry));
      if (entry.d_tag == DT_NULL) {
        break;
      }
      note(entry);
    }
    return Status::kOk;
  }

  /// Calls `change(name, &symbol)` for every symbol that a relocation refers to.
  template <typename Change>
  Status change_symbols(const Change& change) {
    std::set<uint32_t> indices;
    AOTIP_RETURN_IF_FAILED(add_referred(rela_, rela_nbytes_, &indices));
    AOTIP_RETURN_IF_FAILED(add_referred(plt_, plt_nbytes_, &indices));
    for (const uint32_t index : indices) {
      char* at = nullptr;
      AOTIP_RETURN_IF_FAILED(
          find(symbols_ + uint64_t{index} * sizeof(Elf64_Sym), sizeof(Elf64_Sym), &at));
      Elf64_Sym symbol;
      std::memcpy(&symbol, at, sizeof(symbol));
      std::string name;
      AOTIP_RETURN_IF_FAILED(name_of(symbol, &name));
      change(name, &symbol);
      std::memcpy(at, &symbol, sizeof(symbol));
    }
    return Status::kOk;
  }

 private:
  bool in_file(uint64_t offset, uint64_t nbytes) const {
    return offset <= bytes_.size() && nbytes <= bytes_.size() - offset;
  }

  void note(const Elf64_Dyn& entry) {
    const std::pair<Elf64_Sxword, uint64_t*> places[] = {
        {DT_SYMTAB, &symbols_},     {DT_STRTAB, &strings_},     {DT_STRSZ, &strings_nbytes_},
        {DT_RELA, &rela_},          {DT_RELASZ, &rela_nbytes_}, {DT_JMPREL, &plt_},
        {DT_PLTRELSZ, &plt_nbytes_}};
    for (const auto& [tag, place] : places) {
      if (tag == entry.d_tag) {
        *place = entry.d_un.d_val;  // d_ptr, an address, is the same number
      }
    }
  }

  /// Where the file has bytes that will be mapped at an address.
  Status find(uint64_t address, uint64_t nbytes, char** ret) {
    for (const Elf64_Phdr& segment : segments_) {
      const uint64_t offset = address - segment.p_vaddr;
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && offset <= segment.p_filesz &&
          nbytes <= segment.p_filesz - offset && in_file(segment.p_offset, segment.p_filesz)) {
        *ret = bytes_.data() + segment.p_offset + offset;
        return Status::kOk;
      }
    }
    return fail("blob '%s' is a damaged ELF file: %llu bytes at address %#llx are in no segment",
                key_.c_str(), static_cast<unsigned long long>(nbytes),
                static_cast<unsigned long long>(address));
  }

  Status add_referred(uint64_t table, uint64_t nbytes, std::set<uint32_t>* indices) {
    if (nbytes == 0) {
      return Status::kOk;
    }
    char* at = nullptr;
    AOTIP_RETURN_IF_FAILED(find(table, nbytes, &at));
    for (uint64_t i = 0; i < nbytes / sizeof(Elf64_Rela); ++i) {
      Elf64_Rela entry;
      std::memcpy(&entry, at + i * sizeof(entry), sizeof(entry));
      if (const uint32_t index = ELF64_R_SYM(entry.r_info)) {
        indices->insert(index);
      }
    }
    return Status::kOk;
  }

  Status name_of(const Elf64_Sym& symbol, std::string* ret) {
    char* table = nullptr;
    AOTIP_RETURN_IF_FAILED(find(strings_, strings_nbytes_, &table));
    const char* end = symbol.st_name < strings_nbytes_
                          ? static_cast<const char*>(std::memchr(table + symbol.st_name, 0,
                                                                 strings_nbytes_ - symbol.st_name))
                          : nullptr;
    AOTIP_CHECK(end != nullptr,
                "blob '%s' is a damaged ELF file: the name of a symbol is not among its strings",
                key_.c_str());
    *ret = std::string(static_cast<const char*>(table) + symbol.st_name, end);
    return Status::kOk;
  }

  std::vector<char> bytes_;
  const std::string& key_;
  std::vector<Elf64_Phdr> segments_;
  uint64_t symbols_ = 0;
  uint64_t strings_ = 0;
  uint64_t strings_nbytes_ = 0;
  uint64_t rela_ = 0;
  uint64_t rela_nbytes_ = 0;
  uint64_t plt_ = 0;
  uint64_t plt_nbytes_ = 0;
};

/// The dynamic linker uses a hidden symbol as it is and adds no base to an absolute one (glibc 2.28
/// and later), so that it looks for neither.
void set_address(Elf64_Sym* symbol, void* address) {
  symbol->st_value = reinterpret_cast<uintptr_t>(address);
  symbol->st_shndx = SHN_ABS;
  symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol->st_other = STV_HIDDEN;
}

void make_own(Elf64_Sym* symbol) {
  symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, ELF64_ST_TYPE(symbol->st_info));
  symbol->st_other = STV_HIDDEN;
}

/// What a blob gets for a name; null to leave it to the dynamic linker.
void* provided(const DeviceSession& session, const std::string& name) {
  return name == "__cxa_thread_atexit" ? reinterpret_cast<void*>(&aotip_thread_atexit)
                                       : session.plain_function(name.c_str());
}

/// Gives the symbols of `file` addresses.
Status bind(const DeviceSession& session, const std::string& key, ElfFile* file) {
  std::set<std::string> missing;
  AOTIP_RETURN_IF_FAILED(file->change_symbols([&](const std::string& name, Elf64_Sym* symbol) {
    const unsigned binding = ELF64_ST_BIND(symbol->st_info);
    if (symbol->st_shndx != SHN_UNDEF) {
      if (binding == STB_GNU_UNIQUE) {
        make_own(symbol);
      }
      return;
    }
    if (void* address = provided(session, name)) {
      set_address(symbol, address);
    } else if (binding != STB_WEAK && is_ours_to_provide(name)) {
      missing.insert(name);
    }
  }));
  std::string list;
  for (const std::string& name : missing) {
    list += (list.empty() ? "" : ", ") + name;
  }
  AOTIP_CHECK(missing.empty(),
              "blob '%s' calls %zu function%s that this runtime does not have: %s. Lower the model "
              "with the partitioner of aoti_plugins, or run the program with the backend that it "
              "was made for.",
              key.c_str(), missing.size(), missing.size() == 1 ? "" : "s", list.c_str());
  return Status::kOk;
}

}  // namespace

std::shared_ptr<SharedObject> load_plain_blob(const TargetArtifact& target,
                                              const DeviceSession& session, const void* data,
                                              size_t nbytes) {
  if (check_elf(data, nbytes, target.key) != Status::kOk) {
    return nullptr;
  }
  ElfFile file(data, nbytes, target.key);
  if (file.read_tables() != Status::kOk || bind(session, target.key, &file) != Status::kOk) {
    return nullptr;
  }
  TargetArtifact bound = target;
  bound.nbytes = nbytes;
  bound.sha256 = sha256(file.bytes().data(), nbytes);
  return SharedObject::load_checked(bound, file.bytes().data(), nbytes);
}

}  // namespace aoti_plugins
