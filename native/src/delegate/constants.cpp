#include "delegate/constants.h"

#include <executorch/runtime/core/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>

namespace aoti_plugins {
namespace {

using ::executorch::runtime::FreeableBuffer;
using ::executorch::runtime::NamedDataMap;
using SharedStorage = std::shared_ptr<ConstantStorage>;

/// Storages in use, by the map they come from and their key. A map lives as long as the delegates
/// that read from it, so its address names it.
struct Cache {
  std::mutex mutex;
  std::map<std::tuple<const NamedDataMap*, std::string, uint64_t>, std::weak_ptr<ConstantStorage>>
      storages;
};

Cache& cache() {
  static Cache* instance = new Cache();
  return *instance;
}

}  // namespace

ConstantStorage::~ConstantStorage() {
  if (!in_place()) {
    std::free(data_);
  }
}

SharedStorage ConstantStorage::load(const NamedDataMap& map, const StorageRef& ref, bool copy) {
  SharedStorage storage(new ConstantStorage());
  if (ref.nbytes == 0) {
    return storage;
  }
  auto data = map.get_data(ref.key);
  if (!data.ok()) {
    (void)fail(
        "the weights '%s' are not in the program or its data files (%s). If they were saved "
        "to a separate file, load it together with the program.",
        ref.key.c_str(), ::executorch::runtime::to_string(data.error()));
    return nullptr;
  }
  FreeableBuffer buffer(std::move(data.get()));
  if (buffer.size() < ref.nbytes || buffer.data() == nullptr) {
    (void)fail("the weights '%s' have %zu bytes, the payload says %llu", ref.key.c_str(),
               buffer.size(), static_cast<unsigned long long>(ref.nbytes));
    return nullptr;
  }
  const bool aligned = reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment == 0;
  if (aligned && !copy) {
    storage->data_ = const_cast<void*>(buffer.data());
    storage->buffer_.emplace(std::move(buffer));
    return storage;
  }
  if (posix_memalign(&storage->data_, kStorageAlignment, ref.nbytes) != 0) {
    storage->data_ = nullptr;
    (void)fail("out of memory: a copy of the weights '%s', %llu bytes", ref.key.c_str(),
               static_cast<unsigned long long>(ref.nbytes));
    return nullptr;
  }
  std::memcpy(storage->data_, buffer.data(), ref.nbytes);
  return storage;
}

SharedStorage ConstantStorage::get(const NamedDataMap& map, const StorageRef& ref,
                                   bool copy) noexcept {
  try {
    if (copy) {
      return load(map, ref, true);
    }
    std::lock_guard<std::mutex> lock(cache().mutex);
    auto& storages = cache().storages;
    auto& known = storages[{&map, ref.key, ref.nbytes}];
    if (SharedStorage storage = known.lock()) {
      return storage;
    }
    SharedStorage storage = load(map, ref, false);
    known = storage;
    for (auto it = storages.begin(); it != storages.end();) {
      it = it->second.expired() ? storages.erase(it) : std::next(it);
    }
    return storage;
  } catch (const std::exception& error) {
    (void)fail("loading the weights '%s': %s", ref.key.c_str(), error.what());
    return nullptr;
  }
}

Constants::~Constants() {
  for (auto& [fqn, tensor] : tensors_) {
    Tensor::destroy(tensor);
  }
}

Status Constants::load(const Payload& payload, const NamedDataMap* map) noexcept {
  try {
    AOTIP_CHECK(map != nullptr || payload.storages.empty(),
                "the program has weights but the runtime gives no named data");
    std::vector<bool> written(payload.storages.size(), false);
    for (const ConstantRef& constant : payload.constants) {
      written[constant.storage] =
          written[constant.storage] || constant.kind == ConstantKind::kMutableBuffer;
    }
    for (size_t i = 0; i < payload.storages.size(); ++i) {
      storages_.push_back(ConstantStorage::get(*map, payload.storages[i], written[i]));
      if (storages_.back() == nullptr) {
        return Status::kFailed;
      }
    }
    tensors_.reserve(payload.constants.size());
    for (const ConstantRef& constant : payload.constants) {
      Tensor* tensor = Tensor::borrow(
          storages_[constant.storage]->data(), static_cast<int64_t>(constant.sizes.size()),
          constant.sizes.data(), constant.strides.data(), constant.storage_offset,
          static_cast<int32_t>(constant.dtype), Device{});
      if (tensor == nullptr) {
        return fail("constant '%s': %s", constant.fqn.c_str(), last_failure());
      }
      tensors_.emplace_back(constant.fqn, tensor);
    }
    std::sort(tensors_.begin(), tensors_.end());
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("loading the constants: %s", error.what());
  }
}

Tensor* Constants::find(const std::string& fqn) const noexcept {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), fqn,
                                      [](const std::pair<std::string, Tensor*>& entry,
                                         const std::string& key) { return entry.first < key; });
  return found != tensors_.end() && found->first == fqn ? found->second : nullptr;
}

}  // namespace aoti_plugins
