#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace aoti_plugins::runner {

/// Where a file's flatbuffer ends and its segments start, as the header in front says.
struct FileExtent {
  uint64_t flatbuffer_nbytes;  ///< from the first byte of the file
  uint64_t segment_base_offset;
};

/// The header is in the first bytes of a file; no file is shorter.
inline constexpr size_t kHeaderNbytes = 64;

/// A kind of file: how its extent is read from a header, and what is checked before ExecuTorch
/// reads it. Both throw `Damaged`.
struct FileKind {
  const char* name;
  FileExtent (*read_extent)(const uint8_t* header, uint64_t file_nbytes);
  std::function<void(const uint8_t* flatbuffer, const FileExtent& extent, uint64_t file_nbytes)>
      check;
};

FileExtent read_program_extent(const uint8_t* header, uint64_t file_nbytes);
FileExtent read_data_file_extent(const uint8_t* header, uint64_t file_nbytes);

/// Checks a program (`.pte`).
///
/// ExecuTorch's own verification sees to it that its reads stay inside of the flatbuffer, where it
/// is built with it; it takes what it reads at its word. This looks at both.
void check_program(const uint8_t* flatbuffer, const FileExtent& extent, uint64_t file_nbytes);

/// Checks named data (`.ptd`), which ExecuTorch does not verify at all. Returns the keys of those
/// that are tensors, with a layout.
std::set<std::string, std::less<>> check_data_file(const uint8_t* flatbuffer,
                                                   const FileExtent& extent, uint64_t file_nbytes);

}  // namespace aoti_plugins::runner
