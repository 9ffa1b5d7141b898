#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runner/flatbuffer.h"

namespace aoti_plugins::runner {

/// Where data stands behind a flatbuffer.
class FileSegments {
 public:
  /// Checks that each is inside of the file; throws `Damaged`.
  FileSegments(const FlatTables& segments, uint64_t base_offset, uint64_t file_nbytes);

  size_t count() const { return segments_.size(); }

  /// Checks that segment `index` has `nbytes` bytes at `offset`, aligned for items of `itemsize`.
  void check(uint64_t index, uint64_t offset, uint64_t nbytes, size_t itemsize,
             const char* what) const;

  /// Checks that there is a segment `index`.
  void check_index(uint64_t index, const char* what) const;

 private:
  struct Segment {
    uint64_t offset;  ///< in the file
    uint64_t nbytes;
  };
  std::vector<Segment> segments_;
};

}  // namespace aoti_plugins::runner
