#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "mps/driver/commands.h"
#include "slim/status.h"

namespace aoti_plugins::mps {

/// The commands of one program with the memory that they use.
///
/// Memory that a tensor gives back is kept for the next tensor of its size until the GPU is idle:
/// that is right for kernels, which run in order, and whoever touches memory on the CPU calls
/// `finish()` first. Blocks keep their stream alive. Memory may be given back from any thread; all
/// else is for one thread at a time.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// A new stream on the GPU, which is opened if need be. Null, with a reason, when it fails.
  static std::shared_ptr<Stream> create() noexcept;

  Commands& commands() noexcept { return commands_; }

  /// Memory for the kernels to come; null, with a reason, when there is none.
  void* allocate(size_t nbytes) noexcept;

  /// Takes memory of `allocate()` back; kernels that use it may still be running.
  void deallocate(void* data, size_t nbytes) noexcept;

  /// Waits until the GPU is done with everything. Fails when it reports an error, or a kernel an
  /// index out of range, which is a fault.
  Status finish() noexcept;

  /// Where a kernel writes 1 when it finds an index out of range.
  Status fault_word(int32_t** ret) noexcept;

  /// Drops what the GPU was not given yet, and the fault, and waits.
  void abandon() noexcept;

  /// Remembers this thread's last failure, if it is the first: generated code does not look at what
  /// the calls for kernels return.
  void note_fault() noexcept;

  /// Fails, with that reason, when there was a fault since the last `abandon()`.
  Status check_fault() const noexcept;

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 private:
  Stream() = default;
  void release_kept() noexcept;
  Status take_fault_word() noexcept;

  Commands commands_;
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> kept_;  // by size class
  size_t live_ = 0;                            // blocks that are in use
  std::shared_ptr<Stream> self_;               // set while there are such
  char fault_[1024] = {};
  int32_t* fault_word_ = nullptr;  // memory of the GPU; null until a kernel may need it
};

/// This thread's current stream; null outside of a program.
Stream*& current_stream() noexcept;

/// The current stream as the result of a step: fails where there is none.
Status require_stream(Stream** ret) noexcept;

/// Makes a stream this thread's current one until the end of the scope.
class StreamScope {
 public:
  explicit StreamScope(Stream& stream) noexcept : previous_(current_stream()) {
    current_stream() = &stream;
  }
  ~StreamScope() { current_stream() = previous_; }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream* previous_;
};

}  // namespace aoti_plugins::mps
