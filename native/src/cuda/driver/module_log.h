#pragma once

#include <cuda.h>

#include <vector>

namespace aoti_plugins::cuda {

/// The modules that one model has loaded and not unloaded. Models made with PyTorch 2.11 never
/// unload theirs, and later ones lose a module whose kernel is not found. Not thread-safe.
class ModuleLog {
 public:
  /// The log of the model that this thread runs; null where it runs none.
  static ModuleLog*& current() noexcept;

  ModuleLog() = default;
  ModuleLog(const ModuleLog&) = delete;
  ModuleLog& operator=(const ModuleLog&) = delete;

  void add(CUmodule module) noexcept;
  void remove(CUmodule module) noexcept;

  /// Unloads what the model left; the GPU's context must be current.
  void unload_all() noexcept;

 private:
  std::vector<CUmodule> modules_;
};

/// Makes a log this thread's current one until the end of the scope.
class ModuleLogScope {
 public:
  explicit ModuleLogScope(ModuleLog& log) noexcept : previous_(ModuleLog::current()) {
    ModuleLog::current() = &log;
  }
  ~ModuleLogScope() { ModuleLog::current() = previous_; }
  ModuleLogScope(const ModuleLogScope&) = delete;
  ModuleLogScope& operator=(const ModuleLogScope&) = delete;

 private:
  ModuleLog* previous_;
};

}  // namespace aoti_plugins::cuda
