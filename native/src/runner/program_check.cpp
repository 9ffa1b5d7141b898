#include <string>

#include "runner/file_check.h"
#include "runner/file_segments.h"
#include "runner/flatbuffer.h"
#include "runner/plan_check.h"
#include "runner/program_schema.h"

namespace aoti_plugins::runner {
namespace {

constexpr size_t kMagicAt = 8;
constexpr char kMagic[] = "eh00";
constexpr size_t kFlatbufferNbytesAt = 16;
constexpr size_t kSegmentBaseAt = 24;

class ProgramData final : public SharedData {
 public:
  ProgramData(const FlatTable& program, const FileExtent& extent, uint64_t file_nbytes)
      : segments_(program.find_tables(schema::program::segments), extent.segment_base_offset,
                  file_nbytes),
        constants_(program.find_tables(schema::program::constant_buffer)),
        delegate_data_(program.find_tables(schema::program::backend_delegate_data)) {
    check_named_data(program.find_tables(schema::program::named_data));
    const FlatTable constants = program.find_table(schema::program::constant_segment);
    offsets_ = constants.find_numbers<uint64_t>(schema::subsegment_offsets::offsets);
    constant_segment_ = constants.number<uint32_t>(schema::subsegment_offsets::segment_index);
    const FlatTables initial = program.find_tables(schema::program::mutable_data_segments);
    if (initial.size() > 0) {
      // ExecuTorch reads the first one only.
      initial_offsets_ = initial[0].find_numbers<uint64_t>(schema::subsegment_offsets::offsets);
      initial_segment_ = initial[0].number<uint32_t>(schema::subsegment_offsets::segment_index);
    }
    // One offset stands for what is no constant.
    if (offsets_.size() > 1) {
      segments_.check_index(constant_segment_, "a constant");
    }
  }

  void check_constant(uint64_t index, size_t nbytes, size_t itemsize) const override {
    if (offsets_.size() > 1) {
      check_offset(offsets_, constant_segment_, index, nbytes, itemsize, "a constant");
      return;
    }
    if (index >= constants_.size()) {
      damaged("a tensor is constant %llu, there are %zu", static_cast<unsigned long long>(index),
              constants_.size());
    }
    const auto storage = constants_[index].numbers<uint8_t>(schema::buffer::storage);
    if (storage.size() < nbytes || reinterpret_cast<uintptr_t>(storage.data()) % itemsize != 0) {
      damaged("constant %llu has %zu bytes, a tensor takes %zu of it",
              static_cast<unsigned long long>(index), storage.size(), nbytes);
    }
  }

  void check_initial_value(uint64_t index, size_t nbytes, size_t itemsize) const override {
    check_offset(initial_offsets_, initial_segment_, index, nbytes, itemsize, "an initial value");
  }

  void check_delegate_data(schema::DataLocation location, uint64_t index) const override {
    if (location == schema::DataLocation::kSegment) {
      segments_.check_index(index, "what a delegate runs");
      return;
    }
    if (location != schema::DataLocation::kInline || index >= delegate_data_.size()) {
      damaged("what a delegate runs is number %llu at location %d, there are %zu",
              static_cast<unsigned long long>(index), static_cast<int>(location),
              delegate_data_.size());
    }
    (void)delegate_data_[index].numbers<uint8_t>(schema::backend_delegate_inline_data::data);
  }

 private:
  void check_named_data(const FlatTables& named) const {
    for (size_t i = 0; i < named.size(); ++i) {
      const FlatTable entry = named[i];
      (void)entry.text(schema::named_data::key);
      segments_.check_index(entry.number<uint32_t>(schema::named_data::segment_index),
                            "named data");
    }
  }

  void check_offset(const FlatVector<uint64_t>& offsets, uint32_t segment, uint64_t index,
                    size_t nbytes, size_t itemsize, const char* what) const {
    if (index >= offsets.size()) {
      damaged("%s is number %llu, there are %zu", what, static_cast<unsigned long long>(index),
              offsets.size());
    }
    segments_.check(segment, offsets[index], nbytes, itemsize, what);
  }

  FileSegments segments_;
  FlatTables constants_;
  FlatTables delegate_data_;
  FlatVector<uint64_t> offsets_;
  uint32_t constant_segment_ = 0;
  FlatVector<uint64_t> initial_offsets_;
  uint32_t initial_segment_ = 0;
};

}  // namespace

FileExtent read_program_extent(const uint8_t* header, uint64_t file_nbytes) {
  FlatBytes bytes(header, kHeaderNbytes);
  if (std::memcmp(bytes.at(kMagicAt, 1, sizeof(kMagic) - 1, "header"), kMagic,
                  sizeof(kMagic) - 1) != 0) {
    return {file_nbytes, 0};
  }
  return {bytes.number<uint64_t>(kFlatbufferNbytesAt, "header"),
          bytes.number<uint64_t>(kSegmentBaseAt, "header")};
}

void check_program(const uint8_t* flatbuffer, const FileExtent& extent, uint64_t file_nbytes) {
  FlatBytes bytes(flatbuffer, extent.flatbuffer_nbytes);
  const FlatTable program = FlatTable::root(bytes, schema::kProgramIdentifier);
  (void)program.number<uint32_t>(schema::program::version);
  const ProgramData data(program, extent, file_nbytes);
  const FlatTables plans = program.tables(schema::program::execution_plan);
  for (size_t i = 0; i < plans.size(); ++i) {
    const FlatTable plan = plans[i];
    const std::string_view name = plan.text(schema::execution_plan::name);
    try {
      PlanCheck(plan, data).check();
    } catch (const Damaged& found) {
      throw Damaged("method '" + std::string(name) + "': " + found.what());
    }
  }
}

}  // namespace aoti_plugins::runner
