#include "delegate/kernel_watch.h"

#include <aoti_plugins/blob_kernels.h>

int32_t aotip_kernel_watches = 0;

namespace aoti_plugins {
namespace {

using ::executorch::runtime::EventTracer;
using ::executorch::runtime::kUnsetDelegateDebugIntId;

/// The innermost watch of this thread: a call of a kernel library may run another program.
thread_local KernelWatch* current = nullptr;

}  // namespace

KernelClock::~KernelClock() = default;

KernelWatch::KernelWatch(EventTracer* tracer, DeviceSession& session) noexcept : tracer_(tracer) {
  if (tracer_ != nullptr) {
    clock_ = session.kernel_clock();
    if (clock_ != nullptr) {
      clock_->start();
    }
    outer_ = current;
    current = this;
    __atomic_fetch_add(&aotip_kernel_watches, 1, __ATOMIC_RELAXED);
  }
}

KernelWatch::~KernelWatch() {
  if (tracer_ != nullptr) {
    end();  // of a kernel that failed
    __atomic_fetch_sub(&aotip_kernel_watches, 1, __ATOMIC_RELAXED);
    current = outer_;
    if (clock_ != nullptr) {
      clock_->stop(*tracer_);
    }
  }
}

void KernelWatch::begin(const char* name) noexcept {
  end();
  if (clock_ != nullptr) {
    clock_->kernel_begins(name);
  } else {
    entry_ = tracer_->start_profiling_delegate(name, kUnsetDelegateDebugIntId);
  }
  running_ = true;
}

void KernelWatch::end() noexcept {
  if (!running_) {
    return;
  }
  if (clock_ != nullptr) {
    clock_->kernel_ends();
  } else {
    tracer_->end_profiling_delegate(entry_);
  }
  running_ = false;
}

}  // namespace aoti_plugins

void aotip_kernel_begin(const char* name) {
  if (aoti_plugins::current != nullptr && name != nullptr) {
    aoti_plugins::current->begin(name);
  }
}

void aotip_kernel_end() {
  if (aoti_plugins::current != nullptr) {
    aoti_plugins::current->end();
  }
}
