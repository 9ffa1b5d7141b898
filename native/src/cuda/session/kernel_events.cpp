#include "cuda/session/kernel_events.h"

#include <executorch/runtime/platform/log.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>

#include "cuda/driver/driver.h"

namespace aoti_plugins::cuda {
namespace {

using ::executorch::runtime::EventTracer;
using ::executorch::runtime::kUnsetDelegateDebugIntId;

void log_missing_times() noexcept {
  ET_LOG(Error, "a profile lacks kernels, as they cannot be timed: %s", last_failure());
}

}  // namespace

KernelEvents::~KernelEvents() {
  release();
}

void KernelEvents::start() noexcept {
  watches_ = true;
  failed_ = false;
  used_ = 0;
  launches_.clear();
}

void KernelEvents::kernel_begins(const char* name) noexcept {
  if (!failed_ && begin(name) != Status::kOk) {
    give_up();
  }
}

Status KernelEvents::begin(const char* name) noexcept {
  if (used_ == 0) {
    AOTIP_RETURN_IF_FAILED(start_clock());
  }
  size_t at = 0;
  AOTIP_RETURN_IF_FAILED(record(&at));
  try {
    launches_.push_back({name, at, at});
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
  return Status::kOk;
}

void KernelEvents::kernel_ends() noexcept {
  if (!failed_ && record(&launches_.back().end) != Status::kOk) {
    give_up();
  }
}

/// What the call's result is does not depend on it.
void KernelEvents::give_up() noexcept {
  log_missing_times();
  failed_ = true;
  release();
}

Status KernelEvents::record(size_t* ret) noexcept {
  try {
    if (used_ == events_.size()) {
      events_.emplace_back();
      const Status made = events_.back().create(true);
      if (made != Status::kOk) {
        events_.pop_back();
        return made;
      }
    }
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
  AOTIP_CU(cuEventRecord, events_[used_].handle(), stream_.handle());
  *ret = used_++;
  return Status::kOk;
}

/// Records the first event, notes when that was, and holds the stream.
Status KernelEvents::start_clock() noexcept {
  AOTIP_CHECK(driver().cuEventElapsedTime != nullptr, "the driver is too old for it");
  size_t first = 0;
  AOTIP_RETURN_IF_FAILED(record(&first));
  AOTIP_CU(cuEventSynchronize, events_[first].handle());
  begin_ns_ = steady_now_ns();
  if (overruns_ == kMostOverruns || driver().cuLaunchHostFunc == nullptr) {
    return Status::kOk;
  }
  released_ = false;
  ran_over_ = false;
  AOTIP_CU(cuLaunchHostFunc, stream_.handle(), &KernelEvents::hold, this);
  held_ = true;
  return Status::kOk;
}

/// What the stream waits for, on a thread of the driver's.
void KernelEvents::hold(void* self) noexcept {
  auto& events = *static_cast<KernelEvents*>(self);
  std::unique_lock<std::mutex> lock(events.mutex_);
  events.ran_over_ = !events.changed_.wait_for(lock, std::chrono::milliseconds(kMostHeldMs),
                                               [&events] { return events.released_; });
}

void KernelEvents::release() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

void KernelEvents::stop(EventTracer& tracer) noexcept {
  release();
  watches_ = false;
  if (used_ == 0) {
    return;
  }
  std::array<char, 1024> reason{};  // of the call's own failure, which its caller wants to know
  std::snprintf(reason.data(), reason.size(), "%s", last_failure());
  const Status done = stream_.synchronize();
  if (held_) {
    held_ = false;
    overruns_ = ran_over_ ? overruns_ + 1 : 0;
  }
  if (!failed_ && (done != Status::kOk || tell(tracer) != Status::kOk)) {
    log_missing_times();
    (void)fail("%s", reason.data());
  }
}

Status KernelEvents::tell(EventTracer& tracer) noexcept {
  for (const Launch& launch : launches_) {
    int64_t begin = 0;
    int64_t end = 0;
    AOTIP_RETURN_IF_FAILED(elapsed_ns(launch.begin, &begin));
    AOTIP_RETURN_IF_FAILED(elapsed_ns(launch.end, &end));
    tracer.log_profiling_delegate(launch.name, kUnsetDelegateDebugIntId,
                                  static_cast<et_timestamp_t>(begin_ns_ + begin),
                                  static_cast<et_timestamp_t>(begin_ns_ + end));
  }
  return Status::kOk;
}

/// From the call's first event to another one.
Status KernelEvents::elapsed_ns(size_t event, int64_t* ret) const noexcept {
  float milliseconds = 0;
  AOTIP_CU(cuEventElapsedTime, &milliseconds, events_[0].handle(), events_[event].handle());
  *ret = static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
