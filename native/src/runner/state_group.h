#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runner/zeroed_memory.h"

namespace aoti_plugins::runner {

/// What methods of a loaded program share that have one state.
struct StateGroup {
  int32_t id = 0;    ///< joins the buffers of their delegates
  std::mutex mutex;  ///< held by who looks for the arena, and by who loads or runs what uses it
  std::shared_ptr<ZeroedMemory> arena;  ///< where ExecuTorch has the buffers that it keeps
};

/// The states of one loaded program, by the rule of delegates that are loaded without us, too
/// (`SharedState::join()`). Thread-safe.
class StateGroups : public std::enable_shared_from_this<StateGroups> {
 public:
  /// The newest state that does not have a method, or else a new one. The method belongs to it as
  /// long as the result lives.
  std::shared_ptr<StateGroup> join(const std::string& method);

  /// A new state, with a method.
  std::shared_ptr<StateGroup> begin(const std::string& method);

  /// Adds a method to a state of this program.
  std::shared_ptr<StateGroup> join(const std::shared_ptr<StateGroup>& group,
                                   const std::string& method);

 private:
  class Membership;

  std::shared_ptr<StateGroup> add(const std::string& method, std::shared_ptr<StateGroup> group);
  bool has(const StateGroup& group, const std::string& method) const;

  std::mutex mutex_;
  std::vector<const Membership*> members_;  // in the order in which they came
};

}  // namespace aoti_plugins::runner
