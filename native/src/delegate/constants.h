#pragma once

#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "delegate/delegate_device.h"
#include "delegate/payload.h"
#include "delegate/turns.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

class SharedState;

/// The bytes of one storage, in the memory of the device that computes with them.
class AOTIP_CORE ConstantStorage {
 public:
  virtual ~ConstantStorage();
  ConstantStorage(const ConstantStorage&) = delete;
  ConstantStorage& operator=(const ConstantStorage&) = delete;

  void* data() const { return data_; }

  /// Waits until the bytes are there, which another thread may have on their way.
  virtual Status wait() const { return Status::kOk; }

  /// Whether the bytes will never be there: that load failed.
  virtual bool is_lost() const { return false; }

  /// Gets a storage for a session's device; `writable` asks for memory that may be written to.
  /// Others are shared: by all delegates that read them from the same map, and on devices that have
  /// copies by all of the process where the key is a digest of the content.
  static std::shared_ptr<ConstantStorage> get(DeviceSession& session,
                                              const ::executorch::runtime::NamedDataMap& map,
                                              const StorageRef& ref, bool writable) noexcept;

 protected:
  ConstantStorage() = default;

  void* data_ = nullptr;
};

/// Whether a key starts with the SHA-256 of the bytes, as the default names do.
bool is_content_key(const std::string& key);

/// The bytes of `ref`, checked against its size; empty, with a reason, when they are not there.
AOTIP_CORE std::optional<::executorch::runtime::FreeableBuffer> read_storage(
    const ::executorch::runtime::NamedDataMap& map, const StorageRef& ref);

/// A storage in host memory: the program's own memory where it is aligned to 16 bytes and nothing
/// writes to it, or else a copy.
std::shared_ptr<ConstantStorage> load_host_storage(const ::executorch::runtime::NamedDataMap& map,
                                                   const StorageRef& ref, bool writable);

/// The constants of one delegate, as tensors over their storages.
class Constants {
 public:
  Constants() = default;
  ~Constants();
  Constants(const Constants&) = delete;
  Constants& operator=(const Constants&) = delete;

  /// Makes all tensors of `payload` on the session's device. Mutable buffers are those of `state`
  /// where it has them; it may be null.
  Status load(const Payload& payload, DeviceSession& session,
              const ::executorch::runtime::NamedDataMap* map, SharedState* state) noexcept;

  /// The tensor of a constant by its FQN, borrowed; null when there is none.
  Tensor* find(const std::string& fqn) const noexcept;

  /// Whose turn it is to use what other delegates see, too.
  Turns& turns() noexcept { return turns_; }

 private:
  Status load_shared(const Payload& payload, DeviceSession& session,
                     const ::executorch::runtime::NamedDataMap& map, SharedState& state);
  Status load_storages(const Payload& payload, DeviceSession& session,
                       const ::executorch::runtime::NamedDataMap* map, SharedState* state);
  Status make_tensors(const Payload& payload, const DeviceSession& session);

  std::vector<std::shared_ptr<ConstantStorage>> storages_;
  Turns turns_;
  std::vector<std::pair<std::string, Tensor*>> tensors_;  // sorted by name
};

}  // namespace aoti_plugins
