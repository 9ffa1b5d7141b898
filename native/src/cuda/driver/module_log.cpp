#include "cuda/driver/module_log.h"

#include <algorithm>
#include <exception>

#include "cuda/driver/driver.h"

namespace aoti_plugins::cuda {

ModuleLog*& ModuleLog::current() noexcept {
  thread_local ModuleLog* log = nullptr;
  return log;
}

void ModuleLog::add(CUmodule module) noexcept {
  try {
    modules_.push_back(module);
  } catch (const std::exception&) {
    // Without host memory the module stays until the process ends.
  }
}

void ModuleLog::remove(CUmodule module) noexcept {
  const auto found = std::find(modules_.begin(), modules_.end(), module);
  if (found != modules_.end()) {
    modules_.erase(found);
  }
}

void ModuleLog::unload_all() noexcept {
  for (CUmodule module : modules_) {
    AOTIP_CU_LOG(cuModuleUnload, module);
  }
  modules_.clear();
}

}  // namespace aoti_plugins::cuda
