#pragma once

#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/runtime/core/named_data_map.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace aoti_plugins::runner {

/// The data of a file that `CheckedLoader` has opened. ExecuTorch's own map takes for granted that
/// what is asked for a layout has one; data for delegates has none.
class DataMap final : public ::executorch::runtime::NamedDataMap {
 public:
  using DataLoader = ::executorch::runtime::DataLoader;
  using Error = ::executorch::runtime::Error;
  template <typename T>
  using Result = ::executorch::runtime::Result<T>;

  /// 0, or a code after `failed()`, which calls the file `what`.
  static int32_t load(std::unique_ptr<DataLoader> file, const std::string& what,
                      std::unique_ptr<DataMap>* ret);

  Result<const ::executorch::runtime::TensorLayout> get_tensor_layout(
      std::string_view key) const override;
  Result<::executorch::runtime::FreeableBuffer> get_data(std::string_view key) const override {
    return map_.get_data(key);
  }
  Error load_data_into(std::string_view key, void* buffer, size_t size) const override;
  Result<uint32_t> get_num_keys() const override { return map_.get_num_keys(); }
  Result<const char*> get_key(uint32_t index) const override { return map_.get_key(index); }

 private:
  using FlatMap = ::executorch::extension::FlatTensorDataMap;

  DataMap(std::unique_ptr<DataLoader> file, FlatMap map)
      : file_(std::move(file)), map_(std::move(map)) {}

  std::unique_ptr<DataLoader> file_;
  FlatMap map_;
  std::set<std::string, std::less<>> tensors_;  ///< keys that have a layout
};

}  // namespace aoti_plugins::runner
