#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slim/export.h"
#include "slim/status.h"

namespace aoti_plugins {

/// What to do about bytes that cannot be right, and about bytes that a later version may have
/// written.
inline constexpr char kDamaged[] = "The program is damaged: lower the model again.";
inline constexpr char kNewer[] =
    "Install the aoti_plugins that made the program, or lower the model again.";

/// Reads little-endian values one after another and never past the end.
///
/// It knows the path of the list item that is being read, so that every failure says
/// `payload: targets[0].name at byte 52: <what was found and expected>. <what to do>`.
class AOTIP_CORE ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t nbytes, size_t offset)
      : data_(data), nbytes_(nbytes), offset_(offset) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return nbytes_ - offset_; }

  Status u32(const char* field, uint32_t* ret);
  Status u64(const char* field, uint64_t* ret);
  Status i64(const char* field, int64_t* ret);

  /// As `i64()`, refusing negative numbers.
  Status count64(const char* field, int64_t* ret);

  /// So many bytes as they are.
  Status raw(const char* field, size_t nbytes, uint8_t* ret);

  /// A u32 length and that many bytes of UTF-8 without NUL.
  Status str(const char* field, std::string* ret);

  /// A u32 count of items that take at least `item_nbytes` each, and the items: `read(&item)`,
  /// which returns a Status.
  template <typename T, typename Read>
  Status items(const char* list, size_t item_nbytes, std::vector<T>* ret, const Read& read) {
    uint32_t count = 0;
    AOTIP_RETURN_IF_FAILED(count_of(list, item_nbytes, &count));
    ret->resize(count);
    const size_t length = path_.size();
    for (uint32_t i = 0; i < count; ++i) {
      path_ += list;
      path_ += "[" + std::to_string(i) + "].";
      AOTIP_RETURN_IF_FAILED(read(&(*ret)[i]));
      path_.resize(length);
    }
    return Status::kOk;
  }

  /// Fails for a field of the current item; an empty `field` means the item itself.
  Status refuse(const char* field, size_t at, const char* advice, const char* format, ...)
      __attribute__((format(printf, 5, 6), cold));

 private:
  template <typename T>
  Status number(const char* field, T* ret);
  Status need(const char* field, size_t nbytes);
  Status count_of(const char* list, size_t item_nbytes, uint32_t* ret);

  const uint8_t* data_;
  size_t nbytes_;
  size_t offset_;
  std::string path_;
};

/// Offset of the first byte that is not valid UTF-8, or `nbytes`.
size_t first_invalid_utf8(const uint8_t* text, size_t nbytes) noexcept;

}  // namespace aoti_plugins
