#pragma once

/// How a failure in a parallel loop of a blob comes back to the caller.
///
/// An exception that leaves an OpenMP construct ends the process. The lowering writes the macros
/// below around the regions of generated kernels and into the bodies of their loops
/// (`aoti_plugins/lowering/inductor/kept_failures.py` must match).

#ifdef __cplusplus
#include <atomic>
#include <exception>

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
