#include "delegate/byte_reader.h"

#include <cstring>

namespace aoti_plugins {

#define AOTIP_DAMAGED " The program is damaged: lower the model again."

Status ByteReader::need(const char* field, size_t nbytes) {
  AOTIP_CHECK(remaining() >= nbytes,
              "payload: %s at byte %zu needs %zu bytes, found %zu before the end." AOTIP_DAMAGED,
              field, offset_, nbytes, remaining());
  return Status::kOk;
}

Status ByteReader::u32(const char* field, uint32_t* ret) {
  AOTIP_RETURN_IF_FAILED(need(field, 4));
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | data_[offset_ + static_cast<size_t>(i)];
  }
  offset_ += 4;
  *ret = value;
  return Status::kOk;
}

Status ByteReader::u64(const char* field, uint64_t* ret) {
  AOTIP_RETURN_IF_FAILED(need(field, 8));
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) {
    value = value << 8 | data_[offset_ + static_cast<size_t>(i)];
  }
  offset_ += 8;
  *ret = value;
  return Status::kOk;
}

Status ByteReader::i64(const char* field, int64_t* ret) {
  uint64_t bits = 0;
  AOTIP_RETURN_IF_FAILED(u64(field, &bits));
  std::memcpy(ret, &bits, sizeof(bits));
  return Status::kOk;
}

Status ByteReader::str(const char* field, std::string* ret) {
  const size_t start = offset_;
  uint32_t length = 0;
  AOTIP_RETURN_IF_FAILED(u32(field, &length));
  AOTIP_CHECK(length <= remaining(),
              "payload: length of %s at byte %zu is %u bytes, found %zu before the end." AOTIP_DAMAGED,
              field, start, length, remaining());
  const uint8_t* text = data_ + offset_;
  const void* nul = length > 0 ? std::memchr(text, 0, length) : nullptr;
  AOTIP_CHECK(nul == nullptr,
              "payload: %s has a NUL at byte %zu, expected text without one." AOTIP_DAMAGED, field,
              offset_ + static_cast<size_t>(static_cast<const uint8_t*>(nul) - text));
  const size_t bad = first_invalid_utf8(text, length);
  AOTIP_CHECK(bad == length, "payload: %s is not UTF-8 at byte %zu." AOTIP_DAMAGED, field,
              offset_ + bad);
  ret->assign(reinterpret_cast<const char*>(text), length);
  offset_ += length;
  return Status::kOk;
}

Status ByteReader::count(const char* field, size_t item_nbytes, uint32_t* ret) {
  const size_t start = offset_;
  AOTIP_RETURN_IF_FAILED(u32(field, ret));
  AOTIP_CHECK(*ret <= remaining() / item_nbytes,
              "payload: count of %s at byte %zu is %u, at most %zu fit before the end." AOTIP_DAMAGED,
              field, start, *ret, remaining() / item_nbytes);
  return Status::kOk;
}

size_t first_invalid_utf8(const uint8_t* text, size_t nbytes) noexcept {
  size_t i = 0;
  while (i < nbytes) {
    const uint8_t lead = text[i];
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3
                                                          : lead < 0xf5   ? 4
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
