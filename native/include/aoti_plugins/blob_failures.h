#pragma once

/// How a failure in a kernel of a blob comes back to the caller.
///
/// An exception that leaves an OpenMP construct ends the process. The lowering writes the macros
/// below around the regions of generated kernels and into the bodies of their loops
/// (`aoti_plugins/lowering/inductor/kept_failures.py` must match). One that another C++ library
/// than the blob's throws ends it as well, so a check that fails throws here, and not in the
/// runtime.

#ifdef __cplusplus
#include <stdint.h>

#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>

extern "C" {

/// Of the runtime, see `delegate.h`.
__attribute__((visibility("default"))) void aotip_record_failure(const char* reason);

/// Stands for PyTorch's `aoti_torch_check`: throws where `cond` does not hold.
__attribute__((visibility("default"))) inline void aotip_blob_check(bool cond, const char* func,
                                                                    const char* file, uint32_t line,
                                                                    const char* msg) {
  if (__builtin_expect(cond, 1)) {
    return;
  }
  const std::string text =
      std::string(msg) + " (" + func + " at " + file + ":" + std::to_string(line) + ")";
  aotip_record_failure(text.c_str());
  throw std::runtime_error(text);
}

}  // extern "C"

#define aoti_torch_check aotip_blob_check

namespace aotip {

/// The first exception of a parallel region.
class FirstFailure {
 public:
  /// Whether there was one. What the region computes no longer matters then.
  bool is_there() const noexcept { return is_there_.load(std::memory_order_relaxed); }

  /// Keeps the exception that is being handled, unless there is one already. Any thread may call.
  void keep() noexcept {
    if (!is_there_.exchange(true, std::memory_order_relaxed)) {
      failure_ = std::current_exception();
    }
  }

  /// Throws the exception, if there is one. Behind the region, for the threads are joined there.
  void throw_it() {
    if (failure_ != nullptr) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  std::atomic<bool> is_there_{false};
  std::exception_ptr failure_;
};

}  // namespace aotip

/// Before a region, and behind it.
#define AOTIP_KEEP_FAILURES ::aotip::FirstFailure aotip_failure;
#define AOTIP_THROW_FAILURES aotip_failure.throw_it();

/// At the beginning and at the end of the body of a loop, or of a `single`: one that begins after a
/// failure does nothing.
#define AOTIP_TRY                  \
  if (!aotip_failure.is_there()) { \
    try {
#define AOTIP_KEEP        \
  }                       \
  catch (...) {           \
    aotip_failure.keep(); \
  }                       \
  }
#endif
