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

Device device_of(const StorageRef& ref, const DeviceSession& session) {
  return ref.on_host ? Device{} : session.device();
}

/// The buffers that other delegates may see, by the index of their storage.
std::vector<std::vector<const ConstantRef*>> shared_by_storage(const Payload& payload) {
  std::vector<std::vector<const ConstantRef*>> shared(payload.storages.size());
  for (const ConstantRef& constant : payload.constants) {
    if (constant.kind == ConstantKind::kMutableBuffer) {
      shared[constant.storage].push_back(&constant);
    }
  }
  return shared;
}

std::vector<bool> find_written(const Payload& payload) {
  std::vector<bool> written(payload.storages.size());
  for (const ConstantRef& constant : payload.constants) {
    if (constant.kind == ConstantKind::kMutableBuffer ||
        constant.kind == ConstantKind::kOwnBuffer) {
      written[constant.storage] = true;
    }
  }
  return written;
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

bool is_content_key(const std::string& key) {
  constexpr size_t kDigits = 64;
  return key.size() > kDigits && key[kDigits] == '_' &&
         key.find_first_not_of("0123456789abcdef") == kDigits;
}

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
    const Device device = device_of(ref, session);
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

/// Storages that other delegates may see: those of the state where it has them.
Status Constants::load_shared(const Payload& payload, DeviceSession& session,
                              const NamedDataMap& map, SharedState& state) {
  const auto shared = shared_by_storage(payload);
  const auto own_turn = std::make_shared<Turn>();
  const std::lock_guard<std::mutex> lock(state.mutex());
  for (size_t i = 0; i < shared.size(); ++i) {
    if (shared[i].empty()) {
      continue;
    }
    const Device device = device_of(payload.storages[i], session);
    std::shared_ptr<Turn> turn;
    AOTIP_RETURN_IF_FAILED(state.find(shared[i], device, &storages_[i], &turn));
    if (storages_[i] == nullptr) {
      storages_[i] = ConstantStorage::get(session, map, payload.storages[i], true);
      AOTIP_RETURN_IF_NULL(storages_[i]);
      turn = own_turn;
      state.add(shared[i], device, storages_[i], turn);
    }
    turns_.add(std::move(turn));
  }
  return Status::kOk;
}

Status Constants::load_storages(const Payload& payload, DeviceSession& session,
                                const NamedDataMap* map, SharedState* state) {
  AOTIP_CHECK(map != nullptr || payload.storages.empty(),
              "the program has weights but the runtime gives no named data");
  storages_.resize(payload.storages.size());
  if (state != nullptr && map != nullptr) {
    AOTIP_RETURN_IF_FAILED(load_shared(payload, session, *map, *state));
  }
  const std::vector<bool> written = find_written(payload);
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i] == nullptr) {
      storages_[i] = ConstantStorage::get(session, *map, payload.storages[i], written[i]);
    }
    AOTIP_RETURN_IF_NULL(storages_[i]);
  }
  return Status::kOk;
}

Status Constants::make_tensors(const Payload& payload, const DeviceSession& session) {
  tensors_.reserve(payload.constants.size());
  for (const ConstantRef& constant : payload.constants) {
    Tensor* tensor = Tensor::borrow(storages_[constant.storage]->data(),
                                    static_cast<int64_t>(constant.sizes.size()),
                                    constant.sizes.data(), constant.strides.data(),
                                    constant.storage_offset, static_cast<int32_t>(constant.dtype),
                                    device_of(payload.storages[constant.storage], session));
    if (tensor == nullptr) {
      return fail("constant '%s': %s", constant.fqn.c_str(), last_failure());
    }
    tensors_.emplace_back(constant.fqn, tensor);
  }
  std::sort(tensors_.begin(), tensors_.end());
  return Status::kOk;
}

Status Constants::load(const Payload& payload, DeviceSession& session, const NamedDataMap* map,
                       SharedState* state) noexcept {
  try {
    AOTIP_RETURN_IF_FAILED(load_storages(payload, session, map, state));
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
