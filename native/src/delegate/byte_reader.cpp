#include "delegate/byte_reader.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace aoti_plugins {

Status ByteReader::refuse(const char* field, size_t at, const char* advice, const char* format,
                          ...) {
  char problem[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(problem, sizeof(problem), format, args);
  va_end(args);
  std::string path = path_ + field;
  if (!path.empty() && path.back() == '.') {
    path.pop_back();
  }
  return fail("payload: %s at byte %zu: %s. %s", path.c_str(), at, problem, advice);
}

Status ByteReader::need(const char* field, size_t nbytes) {
  return remaining() >= nbytes ? Status::kOk
                               : refuse(field, offset_, kDamaged, "needs %zu bytes, %zu are left",
                                        nbytes, remaining());
}

template <typename T>
Status ByteReader::number(const char* field, T* ret) {
  AOTIP_RETURN_IF_FAILED(need(field, sizeof(T)));
  T value = 0;
  for (size_t i = sizeof(T); i-- > 0;) {
    value = value << 8 | data_[offset_ + i];
  }
  offset_ += sizeof(T);
  *ret = value;
  return Status::kOk;
}

Status ByteReader::u32(const char* field, uint32_t* ret) {
  return number(field, ret);
}

Status ByteReader::u64(const char* field, uint64_t* ret) {
  return number(field, ret);
}

Status ByteReader::i64(const char* field, int64_t* ret) {
  uint64_t bits = 0;
  AOTIP_RETURN_IF_FAILED(u64(field, &bits));
  std::memcpy(ret, &bits, sizeof(bits));
  return Status::kOk;
}

Status ByteReader::count64(const char* field, int64_t* ret) {
  const size_t at = offset_;
  AOTIP_RETURN_IF_FAILED(i64(field, ret));
  return *ret >= 0 ? Status::kOk
                   : refuse(field, at, kDamaged, "%lld is negative, expected at least 0",
                            static_cast<long long>(*ret));
}

Status ByteReader::raw(const char* field, size_t nbytes, uint8_t* ret) {
  AOTIP_RETURN_IF_FAILED(need(field, nbytes));
  std::memcpy(ret, data_ + offset_, nbytes);
  offset_ += nbytes;
  return Status::kOk;
}

Status ByteReader::str(const char* field, std::string* ret) {
  const size_t start = offset_;
  uint32_t length = 0;
  AOTIP_RETURN_IF_FAILED(u32(field, &length));
  if (length > remaining()) {
    return refuse(field, start, kDamaged, "text of %u bytes, %zu are left", length, remaining());
  }
  const uint8_t* text = data_ + offset_;
  const size_t bad = first_invalid_utf8(text, length);
  if (bad != length) {
    return refuse(field, offset_ + bad, kDamaged, "byte %02x is not UTF-8", text[bad]);
  }
  const void* nul = length > 0 ? std::memchr(text, 0, length) : nullptr;
  if (nul != nullptr) {
    return refuse(field, offset_ + static_cast<size_t>(static_cast<const uint8_t*>(nul) - text),
                  kDamaged, "a NUL, expected text without one");
  }
  ret->assign(reinterpret_cast<const char*>(text), length);
  offset_ += length;
  return Status::kOk;
}

Status ByteReader::count_of(const char* list, size_t item_nbytes, uint32_t* ret) {
  const size_t start = offset_;
  AOTIP_RETURN_IF_FAILED(u32(list, ret));
  return *ret <= remaining() / item_nbytes
             ? Status::kOk
             : refuse(list, start, kDamaged, "%u items of at least %zu bytes, %zu bytes are left",
                      *ret, item_nbytes, remaining());
}

size_t first_invalid_utf8(const uint8_t* text, size_t nbytes) noexcept {
  size_t i = 0;
  while (i < nbytes) {
    const uint8_t lead = text[i];
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xc2 ? 0
                          : lead < 0xe0 ? 2
                          : lead < 0xf0 ? 3
                          : lead < 0xf5 ? 4
                                        : 0;
    if (length == 0 || length > nbytes - i) {
      return i;
    }
    uint32_t code = length == 1 ? lead : lead & (0x7fu >> length);
    for (size_t j = 1; j < length; ++j) {
      if ((text[i + j] & 0xc0u) != 0x80u) {
        return i;
      }
      code = code << 6 | (text[i + j] & 0x3fu);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
      return i;
    }
    i += length;
  }
  return nbytes;
}

}  // namespace aoti_plugins
