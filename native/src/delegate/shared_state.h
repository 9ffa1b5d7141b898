#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "delegate/constants.h"
#include "delegate/payload.h"
#include "slim/export.h"
#include "slim/status.h"

namespace aoti_plugins {

/// Buffers that delegates write to and that other delegates see, by FQN: those of all delegates
/// that are loaded with one id. It lives as long as any of them.
class AOTIP_CORE SharedState {
 public:
  /// The state with this id, which need not be there yet.
  static std::shared_ptr<SharedState> get(int32_t id);

  /// Held by whoever looks for buffers and adds them, and by a delegate that runs.
  std::mutex& mutex() noexcept { return mutex_; }

  /// The storage that other delegates have for the buffers in `constants`, all of which are views
  /// of one storage; `*ret` is null when none of them is there yet. Fails when some are there and
  /// others not, in another storage, or with another layout.
  Status find(const std::vector<const ConstantRef*>& constants,
              std::shared_ptr<ConstantStorage>* ret);

  /// Adds buffers with their storage.
  void add(const std::vector<const ConstantRef*>& constants,
           const std::shared_ptr<ConstantStorage>& storage);

  /// How many buffers more than one delegate uses, in the state with this id.
  static size_t shared_count(int32_t id);

 private:
  struct Buffer {
    ConstantRef layout;
    std::shared_ptr<ConstantStorage> storage;
    bool shared = false;
  };

  std::mutex mutex_;
  std::map<std::string, Buffer> buffers_;
};

}  // namespace aoti_plugins
