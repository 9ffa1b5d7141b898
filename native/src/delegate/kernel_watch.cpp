#include "delegate/kernel_watch.h"

#include <aoti_plugins/blob_kernels.h>

#include "delegate/kernel_output.h"
#include "shim/run_shim.h"

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
    wants_outputs_ = wants_kernel_outputs(tracer_);
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
  if (wants_outputs_) {
    return;
  }
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

void KernelWatch::output(const char* name, const Tensor& tensor, int64_t ndim,
                         const int64_t* sizes) noexcept {
  if (wants_outputs_) {
    log_kernel_output(*tracer_, name, tensor, ndim, sizes);
  }
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

void aotip_kernel_output(const char* name, void* tensor, int64_t ndim, const int64_t* sizes) {
  if (aoti_plugins::current != nullptr && name != nullptr && tensor != nullptr) {
    const aoti_plugins::Tensor* written =
        aoti_plugins::unwrap(static_cast<AtenTensorHandle>(tensor));
    aoti_plugins::current->output(name, *written, ndim, sizes);
  }
}
