#pragma once

#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "delegate/payload.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// The bytes of one storage: the program's own memory where it is aligned and nothing writes to it,
/// or else a copy.
class ConstantStorage {
 public:
  static constexpr size_t kAlignment = 16;

  /// Gets the bytes of `ref` from `map`; `copy` asks for memory that may be written to. Storages
  /// that are not written to are shared by all delegates that read them from the same map.
  static std::shared_ptr<ConstantStorage> get(const ::executorch::runtime::NamedDataMap& map,
                                              const StorageRef& ref, bool copy) noexcept;

  void* data() const { return data_; }

  /// Whether the bytes are the program's, not a copy.
  bool in_place() const { return buffer_.has_value(); }

  ~ConstantStorage();
  ConstantStorage(const ConstantStorage&) = delete;
  ConstantStorage& operator=(const ConstantStorage&) = delete;

 private:
  ConstantStorage() = default;
  static std::shared_ptr<ConstantStorage> load(const ::executorch::runtime::NamedDataMap& map,
                                               const StorageRef& ref, bool copy);

  std::optional<::executorch::runtime::FreeableBuffer> buffer_;
  void* data_ = nullptr;
};

/// The constants of one delegate, as tensors over their storages.
class Constants {
 public:
  Constants() = default;
  ~Constants();
  Constants(const Constants&) = delete;
  Constants& operator=(const Constants&) = delete;

  /// Makes all tensors of `payload`.
  Status load(const Payload& payload, const ::executorch::runtime::NamedDataMap* map) noexcept;

  /// The tensor of a constant by its FQN, borrowed; null when there is none.
  Tensor* find(const std::string& fqn) const noexcept;

 private:
  std::vector<std::shared_ptr<ConstantStorage>> storages_;
  std::vector<std::pair<std::string, Tensor*>> tensors_;  // sorted by name
};

}  // namespace aoti_plugins
