#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "mps/driver/objc.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::mps {

class Stream;

/// A file of kernels/ that the build embeds; kernels/sources.h declares them all.
struct MetalSource {
  const char* name;
  const char* text;
};

/// A kernel that finds an index out of range writes 1 to the word that is its argument of this
/// number, `device atomic_int*`; `Stream::finish()` looks there. Must match kernels/*.metal and
/// aoti_plugins/mps/inductor/faults.py.
inline constexpr unsigned kFaultArgument = 30;

/// A function of a shader that the GPU can run. It lives as long as its library.
class Kernel {
 public:
  Kernel(std::string name, Owned pipeline, size_t max_threads, bool tells_faults) noexcept
      : name_(std::move(name)),
        pipeline_(std::move(pipeline)),
        max_threads_(max_threads),
        tells_faults_(tells_faults) {}

  const std::string& name() const noexcept { return name_; }
  Id pipeline() const noexcept { return pipeline_.get(); }
  size_t max_threads() const noexcept { return max_threads_; }

  /// Whether it has the argument `kFaultArgument`.
  bool tells_faults() const noexcept { return tells_faults_; }

 private:
  std::string name_;
  Owned pipeline_;
  size_t max_threads_;
  bool tells_faults_;
};

/// A kernel of our own, built by the first call and kept for the process. Null, with a reason, when
/// it does not build.
///
/// @param defines lines such as "#define T float\n", put before the text; prelude.metal comes
/// before everything.
const Kernel* find_kernel(const MetalSource& source, const char* function,
                          const std::string& defines) noexcept;

/// The most threads that a group of it may have.
size_t max_threads(const Kernel& kernel) noexcept;

/// Threads or groups along each axis.
struct Size {
  size_t x = 1;
  size_t y = 1;
  size_t z = 1;
};

/// One dispatch: arguments in the order of their buffer indices, then `threads()` or `groups()`. It
/// is appended to what the program of this thread has for the GPU, and runs after all that.
class Launch {
 public:
  /// With null, or outside of a program, every later step fails with the reason that is recorded.
  explicit Launch(const Kernel* kernel) noexcept;
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// The next argument: a tensor's elements from `t.data()` on.
  Launch& tensor(const Tensor& t) noexcept;

  /// The next argument: memory of the GPU.
  Launch& memory(void* data, size_t nbytes) noexcept;

  /// The next argument: a copy of `value`, of at most 4096 bytes.
  template <typename T>
  Launch& value(const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 4096);
    return bytes(&value, sizeof(T));
  }
  Launch& bytes(const void* data, size_t nbytes) noexcept;

  /// Runs the kernel with a thread for each point of the grid; one without points does nothing. A
  /// group of more threads than the kernel allows is an error.
  Status threads(Size grid, Size group) noexcept;

  /// As `threads()`, with a number of whole groups.
  Status groups(Size groups, Size group) noexcept;

 private:
  const Kernel* kernel_;
  unsigned next_ = 0;
  Status status_ = Status::kOk;
};

}  // namespace aoti_plugins::mps
