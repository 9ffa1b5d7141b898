#include "runner/program.h"

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/data_loader/mmap_data_loader.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "runner/checked_loader.h"
#include "runner/failure.h"

namespace aoti_plugins::runner {
namespace {

using ::executorch::extension::BufferDataLoader;
using ::executorch::extension::FileDataLoader;
using ::executorch::extension::MmapDataLoader;
using ::executorch::runtime::DataLoader;
using ::executorch::runtime::NamedDataMap;
using ::executorch::runtime::Program;
using ::executorch::runtime::Span;
using ::executorch::runtime::to_string;

constexpr size_t kAlignment = 64;

void init_runtime() {
  static std::once_flag once;
  std::call_once(once, [] { ::executorch::runtime::runtime_init(); });
}

/// Keeps a loader that was made, or says that it was not.
template <typename Loader>
int32_t keep(::executorch::runtime::Result<Loader> loader, const std::string& path,
             std::unique_ptr<DataLoader>* ret) {
  if (!loader.ok()) {
    return failed(loader.error(), "opening '%s' failed (%s)", path.c_str(),
                  to_string(loader.error()));
  }
  *ret = std::make_unique<Loader>(std::move(loader.get()));
  return 0;
}

int32_t open_file(const std::string& path, ProgramFile::LoadMode mode,
                  std::unique_ptr<DataLoader>* ret) {
  return mode == ProgramFile::LoadMode::kMap
             ? keep(MmapDataLoader::from(path.c_str(), MmapDataLoader::MlockConfig::NoMlock), path,
                    ret)
             : keep(FileDataLoader::from(path.c_str(), kAlignment), path, ret);
}

}  // namespace

int32_t ProgramFile::parse(std::unique_ptr<DataLoader> file, const std::string& what) {
  const FileKind kind{"program", read_program_extent, check_program};
  if (const int32_t code = CheckedLoader::open(std::move(file), kind, what, &loader_)) {
    return code;
  }
  auto program = Program::load(loader_.get(), Program::Verification::InternalConsistency);
  if (!program.ok()) {
    return failed(program.error(),
                  "%s is not a program that this runtime can load (%s): lower the model again",
                  what.c_str(), to_string(program.error()));
  }
  program_.emplace(std::move(program.get()));
  for (size_t i = 0; i < program_->num_methods(); ++i) {
    auto name = program_->get_method_name(i);
    if (!name.ok()) {
      return failed(name.error(), "%s does not name its method %zu", what.c_str(), i);
    }
    method_names_.emplace_back(name.get());
  }
  return 0;
}

int32_t ProgramFile::add_data_file(const std::string& path, LoadMode mode) {
  std::unique_ptr<DataLoader> file;
  if (const int32_t code = open_file(path, mode, &file)) {
    return code;
  }
  std::unique_ptr<DataMap> map;
  if (const int32_t code = DataMap::load(std::move(file), "'" + path + "'", &map)) {
    return code;
  }
  data_maps_.push_back(std::move(map));
  return 0;
}

int32_t ProgramFile::load(const std::string& path, const std::vector<std::string>& data_paths,
                          LoadMode mode, std::shared_ptr<ProgramFile>* ret) {
  init_runtime();
  auto file = std::make_shared<ProgramFile>();
  std::unique_ptr<DataLoader> loader;
  if (const int32_t code = open_file(path, mode, &loader)) {
    return code;
  }
  if (const int32_t code = file->parse(std::move(loader), "'" + path + "'")) {
    return code;
  }
  for (const std::string& data_path : data_paths) {
    if (const int32_t code = file->add_data_file(data_path, mode)) {
      return code;
    }
  }
  if (file->data_maps_.size() > 1) {
    std::vector<const NamedDataMap*> maps;
    for (const auto& map : file->data_maps_) {
      maps.push_back(map.get());
    }
    auto merged = MergedMap::load(Span<const NamedDataMap*>(maps.data(), maps.size()));
    if (!merged.ok()) {
      return failed(merged.error(), "the data files do not go together (%s): do two hold one key?",
                    to_string(merged.error()));
    }
    file->merged_ = std::make_unique<MergedMap>(std::move(merged.get()));
  }
  *ret = std::move(file);
  return 0;
}

int32_t ProgramFile::load(const void* data, size_t nbytes, std::shared_ptr<ProgramFile>* ret) {
  init_runtime();
  auto file = std::make_shared<ProgramFile>();
  void* copy = nullptr;
  if (posix_memalign(&copy, kAlignment, nbytes > 0 ? nbytes : 1) != 0) {
    return failed(Error::MemoryAllocationFailed, "out of memory: a program of %zu bytes", nbytes);
  }
  file->bytes_ = {static_cast<uint8_t*>(copy), std::free};
  std::memcpy(copy, data, nbytes);
  auto loader = std::make_unique<BufferDataLoader>(copy, nbytes);
  if (const int32_t code = file->parse(std::move(loader), "the buffer")) {
    return code;
  }
  *ret = std::move(file);
  return 0;
}

const ::executorch::runtime::FreeableBuffer& ProgramFile::flatbuffer() const {
  return static_cast<const CheckedLoader&>(*loader_).flatbuffer();
}

const NamedDataMap* ProgramFile::data_map() const {
  if (merged_ != nullptr) {
    return merged_.get();
  }
  return data_maps_.empty() ? nullptr : data_maps_.front().get();
}

}  // namespace aoti_plugins::runner
