#include "delegate/constants.h"

#include <executorch/runtime/core/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>

#include "delegate/shared_state.h"

namespace aoti_plugins {
namespace {

using ::executorch::runtime::FreeableBuffer;
using ::executorch::runtime::NamedDataMap;
using SharedStorage = std::shared_ptr<ConstantStorage>;

constexpr size_t kAlignment = 16;

/// Storages in use. A map lives as long as the delegates that read from it, so its address names
/// the program; null where the key alone says what the bytes are.
struct Cache {
  using Key = std::tuple<int32_t, int32_t, const void*, std::string, uint64_t, bool>;
  std::mutex mutex;
  std::map<Key, std::weak_ptr<ConstantStorage>> storages;
};

Cache& cache() {
  static Cache* instance = new Cache();
  return *instance;
}

/// Whether a key starts with the SHA-256 of the bytes, as the default names do.
bool is_content_key(const std::string& key) {
  constexpr size_t kDigits = 64;
  return key.size() > kDigits && key[kDigits] == '_' &&
         key.find_first_not_of("0123456789abcdef") == kDigits;
}

class HostStorage final : public ConstantStorage {
 public:
  HostStorage() = default;

  /// The program's own memory.
  explicit HostStorage(FreeableBuffer&& buffer) : buffer_(std::move(buffer)) {
    data_ = const_cast<void*>(buffer_->data());
  }

  ~HostStorage() override {
    if (!buffer_.has_value()) {
      std::free(data_);
    }
  }

  Status copy(const FreeableBuffer& buffer, const StorageRef& ref) {
    if (posix_memalign(&data_, kStorageAlignment, ref.nbytes) != 0) {
      data_ = nullptr;
      return fail("out of memory: a copy of the weights '%s', %llu bytes", ref.key.c_str(),
                  static_cast<unsigned long long>(ref.nbytes));
    }
    std::memcpy(data_, buffer.data(), ref.nbytes);
    return Status::kOk;
  }

 private:
  std::optional<FreeableBuffer> buffer_;
};

/// Whether the bytes of a signed program's weights are those that it was signed with.
Status check_digest(const NamedDataMap& map, const StorageRef& ref) {
  const auto buffer = read_storage(map, ref);
  if (!buffer.has_value()) {
    return Status::kFailed;
  }
  const Sha256 found = sha256(buffer->data(), ref.nbytes);
  AOTIP_CHECK(ref.sha256.has_value() && found == *ref.sha256,
              "sha256 of the weights '%s' is %s, the payload says %s. They are not those that the "
              "program was signed with: get them again from who signed it.",
              ref.key.c_str(), hex_digits(found).c_str(),
              ref.sha256.has_value() ? hex_digits(*ref.sha256).c_str() : "nothing");
  return Status::kOk;
}

SharedStorage load(DeviceSession& session, const NamedDataMap& map, const StorageRef& ref,
                   bool writable) {
  if (ref.is_signed && ref.nbytes > 0 && check_digest(map, ref) != Status::kOk) {
    return nullptr;
  }
  // Nobody says whether a model for a device writes to what it has on the host.
  return ref.on_host ? load_host_storage(map, ref, true) : session.load_storage(map, ref, writable);
}

}  // namespace

ConstantStorage::~ConstantStorage() = default;

std::optional<FreeableBuffer> read_storage(const NamedDataMap& map, const StorageRef& ref) {
  auto data = map.get_data(ref.key);
  if (!data.ok()) {
    (void)fail(
        "the weights '%s' are not in the program or its data files (%s). If they were saved "
        "to a separate file, load it together with the program.",
        ref.key.c_str(), ::executorch::runtime::to_string(data.error()));
    return std::nullopt;
  }
  FreeableBuffer buffer(std::move(data.get()));
  if (buffer.size() < ref.nbytes || (buffer.data() == nullptr && ref.nbytes > 0)) {
    (void)fail("the weights '%s' have %zu bytes, the payload says %llu", ref.key.c_str(),
               buffer.size(), static_cast<unsigned long long>(ref.nbytes));
    return std::nullopt;
  }
  return buffer;
}

SharedStorage load_host_storage(const NamedDataMap& map, const StorageRef& ref, bool writable) {
  if (ref.nbytes == 0) {
    return std::make_shared<HostStorage>();
  }
  std::optional<FreeableBuffer> buffer = read_storage(map, ref);
  if (!buffer.has_value()) {
    return nullptr;
  }
  const bool aligned = reinterpret_cast<uintptr_t>(buffer->data()) % kAlignment == 0;
  if (aligned && !writable) {
    return std::make_shared<HostStorage>(std::move(*buffer));
  }
  auto storage = std::make_shared<HostStorage>();
  return storage->copy(*buffer, ref) == Status::kOk ? storage : nullptr;
}

SharedStorage ConstantStorage::get(DeviceSession& session, const NamedDataMap& map,
                                   const StorageRef& ref, bool writable) noexcept {
  try {
    if (writable) {
      return load(session, map, ref, true);
    }
    const bool by_content = session.copies_storages() && is_content_key(ref.key);
    const Device device = ref.on_host ? Device{} : session.device();
    const void* program = ref.owner != nullptr ? ref.owner : &map;
    std::lock_guard<std::mutex> lock(cache().mutex);
    auto& storages = cache().storages;
    auto& known = storages[{device.type, device.index, by_content ? nullptr : program, ref.key,
                            ref.nbytes, ref.is_signed}];
    if (SharedStorage storage = known.lock(); storage != nullptr && !storage->is_lost()) {
      return storage;
    }
    SharedStorage storage = load(session, map, ref, false);
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

Status Constants::load_storages(const Payload& payload, DeviceSession& session,
                                const NamedDataMap* map) {
  AOTIP_CHECK(map != nullptr || payload.storages.empty(),
              "the program has weights but the runtime gives no named data");
  std::vector<std::vector<const ConstantRef*>> written(payload.storages.size());
  for (const ConstantRef& constant : payload.constants) {
    if (constant.kind == ConstantKind::kMutableBuffer) {
      written[constant.storage].push_back(&constant);
    }
  }
  SharedState* state = session.shared_state();
  const auto lock = state != nullptr ? std::unique_lock<std::mutex>(state->mutex())
                                     : std::unique_lock<std::mutex>();
  for (size_t i = 0; i < payload.storages.size(); ++i) {
    const bool shares = state != nullptr && !written[i].empty();
    SharedStorage storage;
    if (shares) {
      AOTIP_RETURN_IF_FAILED(state->find(written[i], &storage));
    }
    if (storage == nullptr) {
      storage = ConstantStorage::get(session, *map, payload.storages[i], !written[i].empty());
      if (storage == nullptr) {
        return Status::kFailed;
      }
      if (shares) {
        state->add(written[i], storage);
      }
    }
    storages_.push_back(std::move(storage));
  }
  return Status::kOk;
}

Status Constants::make_tensors(const Payload& payload, const DeviceSession& session) {
  tensors_.reserve(payload.constants.size());
  for (const ConstantRef& constant : payload.constants) {
    Tensor* tensor = Tensor::borrow(
        storages_[constant.storage]->data(), static_cast<int64_t>(constant.sizes.size()),
        constant.sizes.data(), constant.strides.data(), constant.storage_offset,
        static_cast<int32_t>(constant.dtype),
        payload.storages[constant.storage].on_host ? Device{} : session.device());
    if (tensor == nullptr) {
      return fail("constant '%s': %s", constant.fqn.c_str(), last_failure());
    }
    tensors_.emplace_back(constant.fqn, tensor);
  }
  std::sort(tensors_.begin(), tensors_.end());
  return Status::kOk;
}

Status Constants::load(const Payload& payload, DeviceSession& session,
                       const NamedDataMap* map) noexcept {
  try {
    AOTIP_RETURN_IF_FAILED(load_storages(payload, session, map));
    AOTIP_RETURN_IF_FAILED(session.loaded());
    for (const SharedStorage& storage : storages_) {
      AOTIP_RETURN_IF_FAILED(storage->wait());
    }
    return make_tensors(payload, session);
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
