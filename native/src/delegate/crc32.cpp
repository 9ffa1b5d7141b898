#include "delegate/crc32.h"

#include <cstring>

namespace aoti_plugins {
namespace {

/// Tables for eight bytes at a time.
struct Tables {
  uint32_t of[8][256];

  constexpr Tables() : of() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value >> 1) ^ ((value & 1u) != 0 ? 0xedb88320u : 0u);
      }
      of[0][byte] = value;
    }
    for (int table = 1; table < 8; ++table) {
      for (uint32_t byte = 0; byte < 256; ++byte) {
        const uint32_t before = of[table - 1][byte];
        of[table][byte] = (before >> 8) ^ of[0][before & 0xffu];
      }
    }
  }
};

constexpr Tables kTables;

}  // namespace

uint32_t crc32(const void* data, size_t nbytes) noexcept {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  const auto& t = kTables.of;
  uint32_t crc = 0xffffffffu;
  for (; nbytes >= 8; nbytes -= 8, bytes += 8) {
    const uint32_t low = crc ^ (bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 |
                                uint32_t{bytes[3]} << 24);
    crc = t[7][low & 0xffu] ^ t[6][(low >> 8) & 0xffu] ^ t[5][(low >> 16) & 0xffu] ^
          t[4][low >> 24] ^ t[3][bytes[4]] ^ t[2][bytes[5]] ^ t[1][bytes[6]] ^ t[0][bytes[7]];
  }
  for (; nbytes > 0; --nbytes, ++bytes) {
    crc = (crc >> 8) ^ t[0][(crc ^ *bytes) & 0xffu];
  }
  return crc ^ 0xffffffffu;
}

}  // namespace aoti_plugins
