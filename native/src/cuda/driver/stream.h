#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/memory/memory_pool.h"
#include "cuda/memory/pinned.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// What is allocated, in order: addresses and bytes; and which of it is memory of somebody else.
struct AllocationLog {
  struct Served {
    size_t ordinal;  ///< of the allocation
    void* memory;
    size_t nbytes;  ///< an allocation of another size gets memory as always
  };
  std::vector<std::pair<void*, size_t>> made;
  std::vector<Served> served;
};

/// A CUDA stream with the device memory that work on it uses.
///
/// Memory that a tensor gives back is kept and given to the next tensor of about its size, without
/// a call to the driver; that is right because all work on it is in one order. Blocks keep their
/// stream alive. Work on the legacy default stream, cudart's and PyTorch's default, is ordered with
/// work on this one, both ways, so work may also go there. Thread-safe.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// A new stream on a GPU, which becomes current on this thread. Null, with a reason, when it
  /// fails.
  ///
  /// @param for_graphs one that graphs are captured on: it is not ordered with the legacy default
  /// stream, which would break a capture, and keeps its memory, which graphs use, to the end.
  static std::shared_ptr<Stream> create(int32_t gpu, bool for_graphs = false) noexcept;

  /// Where work goes now.
  CUstream handle() const noexcept { return handle_; }
  int32_t gpu() const noexcept { return gpu_; }

  /// Sends work to the legacy default stream from here on, or to this stream again. A GPU that goes
  /// from one stream to another waits; on the caller's there is nothing to wait for.
  void use_default_stream(bool wanted) noexcept;

  /// Memory that work on this stream may use from here on; null, with a reason, when there is none.
  void* allocate(size_t nbytes) noexcept;

  /// While a graph is captured on this stream, new memory is memory for work on `launcher`, where
  /// the graph will be launched; null ends that.
  void capture_for(Stream* launcher) noexcept { launcher_ = launcher; }

  /// From here on `allocate()` writes into a log and serves what that says; null ends it. For one
  /// thread's allocations.
  void log_allocations(AllocationLog* log) noexcept { log_ = log; }

  /// Takes memory of `allocate()` back; work on this stream that uses it may still be running.
  void deallocate(void* ptr, size_t nbytes) noexcept;

  /// Memory of at least `nbytes` for the work of one library call on this stream, reused by the
  /// next; null, with a reason, when there is none.
  void* workspace(size_t nbytes) noexcept;

  /// A word for what kernels on this stream find wrong, 0 until then: host memory that the GPU
  /// writes to. It lives as long as the stream, whose GPU must be current.
  Status fault_word(int32_t** ret) noexcept;

  /// Fails, once, when work on this stream that is done found something wrong; the reason says
  /// what.
  Status check_fault() noexcept;

  /// Waits for all work that was sent from here.
  Status synchronize() noexcept;

  /// As `synchronize()`; a failure is logged.
  void wait() noexcept;

  /// Gives what is kept and not in use back to the GPU's pool.
  void release_kept() noexcept;

  /// The same for all streams of a GPU but those of graphs, once their work is done, and from the
  /// pool to the system: what idle programs keep is there for others.
  static void release_all_kept(int32_t gpu) noexcept;

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 private:
  Stream() = default;
  void* take_kept(size_t size) noexcept;
  void* take_served(size_t nbytes) noexcept;
  void* make_block(size_t size) noexcept;
  static std::vector<std::shared_ptr<Stream>> all_of(int32_t gpu);
  /// Whether it was the last stream of its GPU.
  bool delist() noexcept;

  CUstream own_ = nullptr;
  CUstream handle_ = nullptr;       // own_, or null for the default stream
  bool default_in_flight_ = false;  // work on the default stream, since no wait followed
  int32_t gpu_ = 0;
  MemoryPool* pool_ = nullptr;
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> kept_;  // by size
  size_t live_ = 0;                            // blocks that are in use
  std::shared_ptr<Stream> self_;               // set while there are such
  AllocationLog* log_ = nullptr;               // borrowed
  std::vector<void*> served_;                  // memory of somebody else that is in use
  bool for_graphs_ = false;
  Stream* launcher_ = nullptr;                            // borrowed, during a capture
  std::vector<std::pair<void*, size_t>> old_workspaces_;  // that graphs still use
  void* workspace_ = nullptr;
  size_t workspace_nbytes_ = 0;
  std::optional<PinnedMemory> fault_;
};

/// What this thread's shims work on: a stream, and the `Stream` it belongs to where it is ours.
struct CurrentStream {
  CUstream handle = nullptr;  ///< null: the default stream
  Stream* owner = nullptr;    ///< borrowed; null for a stream of somebody else
};

/// This thread's current stream.
CurrentStream& current_stream() noexcept;

/// Makes a stream this thread's current one until the end of the scope.
class StreamScope {
 public:
  explicit StreamScope(const CurrentStream& stream) noexcept : previous_(current_stream()) {
    current_stream() = stream;
  }
  explicit StreamScope(Stream& stream) noexcept
      : StreamScope(CurrentStream{stream.handle(), &stream}) {}
  ~StreamScope() { current_stream() = previous_; }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  CurrentStream previous_;
};

}  // namespace aoti_plugins::cuda
