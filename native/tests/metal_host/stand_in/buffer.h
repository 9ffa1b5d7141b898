// MTLBuffer: pages of its own between pages that cannot be touched, or the caller's pages.
#pragma once

#include <cstddef>

#include "object.h"

namespace stand_in {

constexpr size_t kPageNbytes = 16384;  // of Apple silicon
constexpr unsigned char kFreshByte = 0xA3;

struct Buffer : Object {
  Buffer(char* data, size_t nbytes, bool wrapped);
  void dealloc() override;

  /// Whether nothing was written behind the buffer's end, where its last page goes on.
  bool intact() const;
  /// Lets the host touch the buffer, or not; see AOTI_PLUGINS_METAL_PROTECT in ../README.md.
  void protect(bool readable, bool writable) const;

  char* data;
  size_t nbytes;
  bool wrapped;
};

/// Null if there is no memory.
Buffer* make_buffer(size_t nbytes);
/// Null if address or length are not those of whole pages.
Buffer* wrap_buffer(void* data, size_t nbytes);

/// Whether host accesses to buffers that committed work uses are to be noticed.
bool protects_buffers();

}  // namespace stand_in
