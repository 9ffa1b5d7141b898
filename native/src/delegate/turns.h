#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "slim/export.h"
#include "slim/status.h"

namespace aoti_plugins {

class DeviceSession;

/// Whose turn it is to use some buffers that several delegates see.
struct Turn {
  std::mutex mutex;               ///< held by a delegate that runs
  DeviceSession* last = nullptr;  ///< who used them last; null when that has gone
};

/// The turns that one delegate's calls have to wait for. A lockable: while it is held, nobody else
/// uses the buffers from the host.
class AOTIP_CORE Turns {
 public:
  /// Adds a turn, once.
  void add(std::shared_ptr<Turn> turn);

  void lock();
  void unlock();

  /// Lets work that the session gives its device from here on come after what others gave theirs.
  /// Call it while this is held.
  Status follow_others(DeviceSession& session) noexcept;

  /// The session goes, and has waited for its work.
  void leave(const DeviceSession& session) noexcept;

 private:
  std::vector<std::shared_ptr<Turn>> all_;  // by address, so that no two delegates lock crosswise
};

}  // namespace aoti_plugins
