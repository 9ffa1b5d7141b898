#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "slim/status.h"

namespace aoti_plugins {

/// Reads little-endian values one after another and never past the end. Every failure names the field that
/// was being read and its byte offset.
class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t nbytes, size_t offset)
      : data_(data), nbytes_(nbytes), offset_(offset) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return nbytes_ - offset_; }

  Status u32(const char* field, uint32_t* ret);
  Status u64(const char* field, uint64_t* ret);
  Status i64(const char* field, int64_t* ret);

  /// A u32 length and that many bytes of UTF-8 without NUL.
  Status str(const char* field, std::string* ret);

  /// A u32 count of items that take at least `item_nbytes` each.
  Status count(const char* field, size_t item_nbytes, uint32_t* ret);

 private:
  Status need(const char* field, size_t nbytes);

  const uint8_t* data_;
  size_t nbytes_;
  size_t offset_;
};

/// Offset of the first byte that is not valid UTF-8, or `nbytes`.
size_t first_invalid_utf8(const uint8_t* text, size_t nbytes) noexcept;

}  // namespace aoti_plugins
