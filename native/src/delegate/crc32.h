#pragma once

#include <cstddef>
#include <cstdint>

namespace aoti_plugins {

/// The CRC-32 of zlib (`zlib.crc32` in Python).
uint32_t crc32(const void* data, size_t nbytes) noexcept;

}  // namespace aoti_plugins
