#pragma once

#include <executorch/runtime/core/freeable_buffer.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "slim/later_status.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Copies host bytes, which may be a mapped file, to memory of one GPU.
///
/// Threads read them into page-locked buffers, from where they go to the device while more is read.
/// To page-lock memory takes longer than to copy as much, so there are more threads the more has
/// been added, and none for small programs. One thread may add; others may wait for `done()`.
class Uploader {
 public:
  explicit Uploader(int32_t gpu);
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Copies the first `nbytes` of `source` to `dst`, some time until `finish()`; `source` is freed
  /// by then, on this thread. The GPU's context must be current. Fails, too, where a thread could
  /// not copy what was added before.
  ///
  /// @param owner of the memory at `dst`; it is kept as long.
  Status add(std::shared_ptr<const void> owner, void* dst,
             ::executorch::runtime::FreeableBuffer&& source, size_t nbytes) noexcept;

  /// Waits until all bytes are there; nothing can be added any more. The destructor does it, too.
  /// The GPU's context must be current.
  Status finish() noexcept;

  /// Set after `finish()`, when nothing is under way any more; says whether all bytes that
  /// `add()` took are there.
  LaterStatus done() const { return done_; }

 private:
  class Lane;
  struct Source;
  struct Chunk;
  using Lock = std::unique_lock<std::mutex>;

  Status copy_now(void* dst, const void* src, size_t nbytes) noexcept;
  void add_lanes(size_t count);
  void help_until(size_t unread_nbytes, Lock& lock) noexcept;
  bool take(Chunk* ret) noexcept;
  void copy(Lane& lane, const Chunk& chunk, Lock& lock) noexcept;
  void work(Lane& lane) noexcept;
  void drop_read(Lock& lock) noexcept;
  bool failed() const noexcept { return failure_[0] != '\0'; }
  void note_failure() noexcept;

  int32_t gpu_;
  size_t added_nbytes_ = 0;
  size_t max_lanes_;
  std::vector<std::shared_ptr<const void>> owners_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // the first one is for the thread that adds
  LaterStatus done_;
  bool finished_ = false;

  // What the threads share.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Source> sources_;
  size_t unread_nbytes_ = 0;  // of all sources
  size_t copying_ = 0;        // threads that are at a chunk
  char failure_[256] = "";    // the first one's reason
  bool closing_ = false;
};

}  // namespace aoti_plugins::cuda
