#include "delegate/payload_signatures.h"

#include <algorithm>
#include <cstring>

#include "delegate/byte_reader.h"
#include "delegate/crc32.h"

namespace aoti_plugins {
namespace {

/// With its NUL.
constexpr char kContext[] = "aoti_plugins payload signature 1";
constexpr size_t kCrcNbytes = 4;

static_assert(sizeof(PayloadSignature) == 96, "a place for a signature has no padding");

bool is_empty(const PayloadSignature& place) {
  static const PayloadSignature empty;
  return std::memcmp(&place, &empty, sizeof(empty)) == 0;
}

bool is_repeated(const std::vector<PayloadSignature>& found, const Ed25519Key& key) {
  return std::any_of(found.begin(), found.end(),
                     [&](const PayloadSignature& one) { return one.key == key; });
}

}  // namespace

Status read_signatures(const uint8_t* data, size_t nbytes, std::vector<PayloadSignature>* ret) {
  const size_t start = nbytes - kSignaturesNbytes;
  const size_t crc_at = nbytes - kCrcNbytes;
  ByteReader reader(data, nbytes, crc_at);
  uint32_t stored = 0;
  AOTIP_RETURN_IF_FAILED(reader.u32("signatures_crc32", &stored));
  const uint32_t found = crc32(data + start, kSignaturesNbytes - kCrcNbytes);
  if (found != stored) {
    return reader.refuse("signatures_crc32", crc_at, kDamaged,
                         "the signatures' checksum is %08x, expected %08x", found, stored);
  }
  bool ended = false;
  for (size_t i = 0; i < kMostSignatures; ++i) {
    PayloadSignature place;
    std::memcpy(&place, data + start + i * sizeof(place), sizeof(place));
    if (is_empty(place)) {
      ended = true;
      continue;
    }
    if (ended) {
      return reader.refuse("signatures", start, kDamaged, "an empty place lies before a used one");
    }
    if (is_repeated(*ret, place.key)) {
      return reader.refuse("signatures", start, kDamaged,
                           "two are by one key, expected one of each");
    }
    ret->push_back(place);
  }
  return Status::kOk;
}

std::vector<uint8_t> message_to_sign(const uint8_t* data, size_t nbytes) {
  const size_t signed_nbytes = nbytes - kSignaturesNbytes;
  std::vector<uint8_t> message(sizeof(kContext) + signed_nbytes);
  std::memcpy(message.data(), kContext, sizeof(kContext));
  std::memcpy(message.data() + sizeof(kContext), data, signed_nbytes);
  return message;
}

}  // namespace aoti_plugins
