#include "runner/file_segments.h"

#include "runner/program_schema.h"

namespace aoti_plugins::runner {

FileSegments::FileSegments(const FlatTables& segments, uint64_t base_offset, uint64_t file_nbytes) {
  if (base_offset > file_nbytes) {
    damaged("segments start at byte %llu of %llu", static_cast<unsigned long long>(base_offset),
            static_cast<unsigned long long>(file_nbytes));
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    const FlatTable segment = segments[i];
    const auto offset = segment.number<uint64_t>(schema::data_segment::offset);
    const auto nbytes = segment.number<uint64_t>(schema::data_segment::size);
    // A file that has no segments with anything in them does not say where they start.
    const uint64_t room = base_offset == 0 ? 0 : file_nbytes - base_offset;
    if (offset > room || nbytes > room - offset) {
      damaged("segment %zu has %llu bytes at %llu, which is behind the end of the file", i,
              static_cast<unsigned long long>(nbytes), static_cast<unsigned long long>(offset));
    }
    segments_.push_back({base_offset + offset, nbytes});
  }
}

void FileSegments::check_index(uint64_t index, const char* what) const {
  if (index >= segments_.size()) {
    damaged("%s is in segment %llu, there are %zu", what, static_cast<unsigned long long>(index),
            segments_.size());
  }
}

void FileSegments::check(uint64_t index, uint64_t offset, uint64_t nbytes, size_t itemsize,
                         const char* what) const {
  check_index(index, what);
  const Segment& segment = segments_[index];
  if (offset > segment.nbytes || nbytes > segment.nbytes - offset) {
    damaged("%s takes %llu bytes at %llu of a segment of %llu", what,
            static_cast<unsigned long long>(nbytes), static_cast<unsigned long long>(offset),
            static_cast<unsigned long long>(segment.nbytes));
  }
  // The segment may be read into memory of its own, or be mapped with the file.
  if (offset % itemsize != 0 || (segment.offset + offset) % itemsize != 0) {
    damaged("%s is at byte %llu of a segment at %llu, not aligned to its %zu", what,
            static_cast<unsigned long long>(offset),
            static_cast<unsigned long long>(segment.offset), itemsize);
  }
}

}  // namespace aoti_plugins::runner
