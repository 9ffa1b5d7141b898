#include "runner/data_map.h"

#include "runner/checked_loader.h"
#include "runner/failure.h"

namespace aoti_plugins::runner {

using ::executorch::runtime::TensorLayout;
using ::executorch::runtime::to_string;

int32_t DataMap::load(std::unique_ptr<DataLoader> file, const std::string& what,
                      std::unique_ptr<DataMap>* ret) {
  std::unique_ptr<DataLoader> checked;
  std::set<std::string, std::less<>> tensors;
  const auto check = [&](const uint8_t* flatbuffer, const FileExtent& extent, uint64_t nbytes) {
    tensors = check_data_file(flatbuffer, extent, nbytes);
  };
  const FileKind kind{"data file", read_data_file_extent, check};
  if (const int32_t code = CheckedLoader::open(std::move(file), kind, what, &checked)) {
    return code;
  }
  auto map = FlatMap::load(checked.get());
  if (!map.ok()) {
    return failed(map.error(), "%s is not a data file that this runtime can load (%s)",
                  what.c_str(), to_string(map.error()));
  }
  ret->reset(new DataMap(std::move(checked), std::move(map.get())));
  (*ret)->tensors_ = std::move(tensors);
  return 0;
}

DataMap::Result<const TensorLayout> DataMap::get_tensor_layout(std::string_view key) const {
  if (tensors_.find(key) == tensors_.end()) {
    return Error::NotFound;
  }
  return map_.get_tensor_layout(key);
}

Error DataMap::load_data_into(std::string_view key, void* buffer, size_t size) const {
  return tensors_.find(key) == tensors_.end() ? Error::NotFound
                                              : map_.load_data_into(key, buffer, size);
}

}  // namespace aoti_plugins::runner
