#include "mps/session/kernel_buffers.h"

#include <executorch/runtime/platform/log.h>

#include <cstdint>
#include <exception>

namespace aoti_plugins::mps {

using ::executorch::runtime::EventTracer;
using ::executorch::runtime::kUnsetDelegateDebugIntId;

void KernelBuffers::start() noexcept {
  launches_.clear();
}

void KernelBuffers::kernel_begins(const char* name) noexcept {
  try {
    launches_.push_back({name, Owned()});
  } catch (const std::exception& error) {
    ET_LOG(Error, "a profile lacks the kernel %s: %s", name, error.what());
    return;
  }
  if (stream_.commands().begin_own() != Status::kOk) {
    stream_.note_fault();  // of an earlier kernel
  }
}

void KernelBuffers::kernel_ends() noexcept {
  if (launches_.empty() || launches_.back().commands) {
    return;  // this kernel is not listed
  }
  if (stream_.commands().end_own(&launches_.back().commands) != Status::kOk) {
    stream_.note_fault();
  }
}

void KernelBuffers::stop(EventTracer& tracer) noexcept {
  for (const Launch& launch : launches_) {
    int64_t begin = 0;
    int64_t end = 0;
    if (launch.commands) {
      Commands::gpu_times(launch.commands, &begin, &end);
    }
    if (end > 0) {  // 0 of what did not run
      tracer.log_profiling_delegate(launch.name, kUnsetDelegateDebugIntId,
                                    static_cast<et_timestamp_t>(begin),
                                    static_cast<et_timestamp_t>(end));
    }
  }
  launches_.clear();
}

}  // namespace aoti_plugins::mps
