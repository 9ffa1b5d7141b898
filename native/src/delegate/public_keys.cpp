#include <algorithm>
#include <cstring>
#include <string>

#include "delegate/trust.h"

namespace aoti_plugins {
namespace {

constexpr char kBegin[] = "-----BEGIN PUBLIC KEY-----";
constexpr char kEnd[] = "-----END PUBLIC KEY-----";

/// What stands before the 32 bytes of an Ed25519 key in DER (RFC 8410).
constexpr uint8_t kPrefix[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0};

/// The bytes of base64, in which white space does not count; false where it is not base64.
bool decode_base64(const std::string& text, std::vector<uint8_t>* ret) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t bits = 0;
  int count = 0;
  size_t padding = 0;
  for (const char c : text) {
    if (std::strchr(" \t\r\n", c) != nullptr && c != '\0') {
      continue;
    }
    if (c == '=') {
      ++padding;
      continue;
    }
    const size_t digit = digits.find(c);
    if (digit == std::string::npos || padding > 0) {
      return false;
    }
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xffffffu;
    count += 6;
    if (count >= 8) {
      count -= 8;
      ret->push_back(static_cast<uint8_t>(bits >> count));
    }
  }
  return padding <= 2;
}

}  // namespace

Status read_public_keys(const std::string& text, const std::string& name,
                        std::vector<Ed25519Key>* ret) {
  size_t at = 0;
  while ((at = text.find(kBegin, at)) != std::string::npos) {
    at += std::strlen(kBegin);
    const size_t end = text.find(kEnd, at);
    AOTIP_CHECK(end != std::string::npos, "key file '%s' is cut off: '%s' is missing", name.c_str(),
                kEnd);
    std::vector<uint8_t> der;
    AOTIP_CHECK(decode_base64(text.substr(at, end - at), &der), "key file '%s' is not PEM",
                name.c_str());
    Ed25519Key key;
    AOTIP_CHECK(der.size() == sizeof(kPrefix) + key.size() &&
                    std::equal(kPrefix, kPrefix + sizeof(kPrefix), der.begin()),
                "key file '%s' holds a public key that is not of Ed25519", name.c_str());
    std::copy(der.begin() + sizeof(kPrefix), der.end(), key.begin());
    ret->push_back(key);
    at = end;
  }
  AOTIP_CHECK(!ret->empty(), "key file '%s' holds no public key: '%s' is missing", name.c_str(),
              kBegin);
  return Status::kOk;
}

}  // namespace aoti_plugins
