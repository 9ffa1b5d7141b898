#pragma once

#include <executorch/extension/named_data_map/merged_data_map.h>
#include <executorch/runtime/core/data_loader.h>
#include <executorch/runtime/executor/program.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/data_map.h"
#include "runner/state_group.h"

namespace aoti_plugins::runner {

/// A loaded program with its data files. But for the states of its methods it is immutable once
/// loaded, so that threads may share it.
class ProgramFile {
 public:
  enum class LoadMode : int32_t { kMap = 0, kRead = 1 };

  /// Loads from files; 0, or a code after `failed()`.
  static int32_t load(const std::string& path, const std::vector<std::string>& data_paths,
                      LoadMode mode, std::shared_ptr<ProgramFile>* ret);

  /// Loads from memory, which is copied.
  static int32_t load(const void* data, size_t nbytes, std::shared_ptr<ProgramFile>* ret);

  const ::executorch::runtime::Program& program() const { return *program_; }

  /// The data of the files, null when there are none.
  const ::executorch::runtime::NamedDataMap* data_map() const;

  const std::vector<std::string>& method_names() const { return method_names_; }

  /// The flatbuffer in the file.
  const ::executorch::runtime::FreeableBuffer& flatbuffer() const;

  /// The states that its loaded methods have.
  StateGroups& states() const { return *states_; }

 private:
  using DataLoader = ::executorch::runtime::DataLoader;
  using MergedMap = ::executorch::extension::merged_data_map::MergedDataMap;

  int32_t parse(std::unique_ptr<DataLoader> file, const std::string& what);
  int32_t add_data_file(const std::string& path, LoadMode mode);

  std::unique_ptr<uint8_t, void (*)(void*)> bytes_{nullptr, nullptr};
  std::unique_ptr<DataLoader> loader_;
  std::vector<std::unique_ptr<DataMap>> data_maps_;
  std::unique_ptr<MergedMap> merged_;
  std::optional<::executorch::runtime::Program> program_;
  std::vector<std::string> method_names_;
  std::shared_ptr<StateGroups> states_ = std::make_shared<StateGroups>();
};

}  // namespace aoti_plugins::runner
