#pragma once

#include <aoti_plugins/runner.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/backend/options.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace aoti_plugins::runner {

/// Options of delegates in ExecuTorch's form, which borrows from this object.
class Options {
 public:
  /// 0, or a code after `failed()`.
  int32_t read(const aotip_option* options, size_t count);

  /// Adds the id that joins the buffers of delegates of one kind; 0, or a code after `failed()`.
  int32_t share_state(const char* backend, int32_t id);

  /// For one load; null when there are none.
  const ::executorch::runtime::LoadBackendOptionsMap* for_load() const {
    return by_backend_.empty() ? nullptr : &map_;
  }

  /// Sets them for the process; 0, or a code after `failed()`.
  int32_t set();

 private:
  int32_t set_map(const std::string& backend);

  std::map<std::string, std::vector<::executorch::runtime::BackendOption>> by_backend_;
  ::executorch::runtime::LoadBackendOptionsMap map_;
};

/// The options of a delegate; names are borrowed until the next call on this thread.
int32_t get_options(const char* backend, aotip_option* options, size_t capacity, size_t* ret_count);

}  // namespace aoti_plugins::runner
