#include "cuda/upstream/upstream_backend.h"

#include <executorch/runtime/platform/log.h>

#include <cstring>
#include <vector>

#include "cuda/session/options.h"
#include "cuda/upstream/upstream_program.h"

namespace aoti_plugins::cuda {

using ::executorch::runtime::ArrayRef;
using ::executorch::runtime::BackendInitContext;
using ::executorch::runtime::BackendOption;
using ::executorch::runtime::BackendOptionContext;
using ::executorch::runtime::CompileSpec;
using ::executorch::runtime::Error;
using ::executorch::runtime::Span;

namespace {

bool is_name(const BackendOption& option, const char* name) {
  return std::strncmp(option.key, name, sizeof(option.key)) == 0;
}

void log_ignored(const BackendOption& option) {
  ET_LOG(Info, "%s: option '%.*s' is not needed here and ignored", UpstreamBackend::kId,
         static_cast<int>(sizeof(option.key)), option.key);
}

}  // namespace

Error UpstreamBackend::set_option(BackendOptionContext& context,
                                  const Span<BackendOption>& options) {
  std::vector<BackendOption> known;
  for (const BackendOption& option : options) {
    bool found = false;
    for (const DelegateOption& ours : device().options()) {
      found = found || is_name(option, ours.name);
    }
    if (found) {
      known.push_back(option);
    } else {
      log_ignored(option);
    }
  }
  return DelegateBackend::set_option(context, Span<BackendOption>(known.data(), known.size()));
}

LoadOptions UpstreamBackend::load_options(const BackendInitContext& context) const {
  const LoadOptions given = context.runtime_specs();
  LoadOptions known;
  for (size_t i = 0; i < given.size(); ++i) {
    if (is_name(given[i], kGraphsOption)) {
      known = LoadOptions(&given[i], 1);
    } else {
      log_ignored(given[i]);
    }
  }
  return known;
}

Status UpstreamBackend::read(const BackendInitContext& context, const void* bytes, size_t nbytes,
                             ArrayRef<CompileSpec> specs, Payload* ret) const {
  return read_upstream_program(context, bytes, nbytes, specs, ret);
}

}  // namespace aoti_plugins::cuda
