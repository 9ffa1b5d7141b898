#include <cstring>

#include "runner/file_check.h"
#include "runner/file_segments.h"
#include "runner/flatbuffer.h"
#include "runner/program_schema.h"
#include "runner/tensor_check.h"

namespace aoti_plugins::runner {
namespace {

constexpr size_t kMagicAt = 8;
constexpr char kMagic[] = "FH01";
constexpr size_t kFlatbufferOffsetAt = 16;
constexpr size_t kFlatbufferNbytesAt = 24;
constexpr size_t kSegmentBaseAt = 32;

}  // namespace

FileExtent read_data_file_extent(const uint8_t* header, uint64_t file_nbytes) {
  FlatBytes bytes(header, kHeaderNbytes);
  if (std::memcmp(bytes.at(kMagicAt, 1, sizeof(kMagic) - 1, "header"), kMagic,
                  sizeof(kMagic) - 1) != 0) {
    damaged("the header does not start with %s", kMagic);
  }
  const auto offset = bytes.number<uint64_t>(kFlatbufferOffsetAt, "header");
  const auto size = bytes.number<uint64_t>(kFlatbufferNbytesAt, "header");
  // ExecuTorch reads the flatbuffer from the start of the file, whatever the offset is.
  if (offset > file_nbytes || size > file_nbytes - offset) {
    damaged("a flatbuffer of %llu bytes at %llu in a file of %llu",
            static_cast<unsigned long long>(size), static_cast<unsigned long long>(offset),
            static_cast<unsigned long long>(file_nbytes));
  }
  return {offset + size, bytes.number<uint64_t>(kSegmentBaseAt, "header")};
}

std::set<std::string, std::less<>> check_data_file(const uint8_t* flatbuffer,
                                                   const FileExtent& extent, uint64_t file_nbytes) {
  std::set<std::string, std::less<>> tensors;
  FlatBytes bytes(flatbuffer, extent.flatbuffer_nbytes);
  const FlatTable root = FlatTable::root(bytes, schema::kDataIdentifier);
  (void)root.number<uint32_t>(schema::flat_tensor::version);
  const FileSegments segments(root.tables(schema::flat_tensor::segments),
                              extent.segment_base_offset, file_nbytes);
  const FlatTables named = root.tables(schema::flat_tensor::named_data);
  for (size_t i = 0; i < named.size(); ++i) {
    const FlatTable entry = named[i];
    const std::string_view key = entry.text(schema::named_data::key);
    const auto segment = entry.number<uint32_t>(schema::named_data::segment_index);
    segments.check_index(segment, "named data");
    if (const FlatTable layout = entry.find_table(schema::named_data::tensor_layout)) {
      const TensorBytes tensor =
          check_tensor_layout(layout, schema::tensor_layout::scalar_type,
                              schema::tensor_layout::sizes, schema::tensor_layout::dim_order);
      segments.check(segment, 0, tensor.nbytes, tensor.itemsize, "a tensor");
      tensors.emplace(key);
    }
  }
  return tensors;
}

}  // namespace aoti_plugins::runner
