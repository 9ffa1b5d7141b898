#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "delegate/constants.h"
#include "delegate/payload.h"
#include "delegate/turns.h"
#include "slim/device.h"
#include "slim/export.h"
#include "slim/status.h"

namespace aoti_plugins {

/// Buffers that delegates write to and that other delegates see, by name. It lives as long as a
/// delegate that belongs to it, and a buffer as long as one that uses it. Thread-safe.
class AOTIP_CORE SharedState {
 public:
  /// The state with this id, which need not be there yet.
  static std::shared_ptr<SharedState> get(int32_t id);

  /// The state that a delegate of a loaded program belongs to as long as the result lives.
  ///
  /// Methods of one program have one state. A method that is loaded while it is loaded already
  /// begins another one, and methods that are loaded later belong to the newest that does not have
  /// them; to that of their loader, whatever its age, where that has loaded others.
  ///
  /// @param program from `program_of()`.
  /// @param loader names who loads: delegates of one method with one loader are one load of it.
  /// ExecuTorch's `Module` has one for all of its methods. Null is a loader of its own.
  static std::shared_ptr<SharedState> join(const void* program, const std::string& method,
                                           const void* loader);

  /// Held by whoever looks for buffers and adds them.
  std::mutex& mutex() noexcept { return mutex_; }

  /// The storage that other delegates have for the buffers in `constants`, all of which are views
  /// of one storage, and whose turn it is; `*ret` is null when none of them is there yet. Fails
  /// when some are there and others not, in another storage, on another device, or with another
  /// layout.
  Status find(const std::vector<const ConstantRef*>& constants, Device device,
              std::shared_ptr<ConstantStorage>* ret, std::shared_ptr<Turn>* ret_turn);

  /// Adds buffers with their storage.
  void add(const std::vector<const ConstantRef*>& constants, Device device,
           const std::shared_ptr<ConstantStorage>& storage, const std::shared_ptr<Turn>& turn);

  /// How many buffers more than one delegate uses, in the state with this id.
  static size_t shared_count(int32_t id);

 private:
  struct Buffer {
    ConstantRef layout;
    Device device;
    std::weak_ptr<ConstantStorage> storage;
    std::shared_ptr<Turn> turn;
    bool shared = false;
  };
  struct Member {
    std::string method;
    const void* loader;
  };
  class Membership;

  bool has_loaded(const std::string& method, const void* loader) const;
  bool is_loaded_by(const void* loader) const;

  std::mutex mutex_;
  std::map<std::string, Buffer> buffers_;
  std::vector<const Member*> members_;  // guarded by the mutex of all states
};

}  // namespace aoti_plugins
