#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Copies host bytes, which may be a mapped file, to memory of one GPU.
///
/// Large ones go through page-locked buffers that several threads fill, so that reading the file
/// and copying to the device overlap. To page-lock memory takes longer than to copy as much: there
/// are more buffers and threads the more has been copied, and they stay until the end. One thread
/// at a time; others may wait for `done()`.
class Uploader {
 public:
  explicit Uploader(int32_t gpu);
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Copies. On return the source has been read, and the bytes are on their way. The GPU's context
  /// must be current.
  Status add(void* dst, const void* src, size_t nbytes) noexcept;

  /// Waits until all bytes are there; nothing can be added any more. The destructor does it, too.
  Status finish() noexcept;

  /// Ready when all bytes are there, or never will be.
  std::shared_future<void> done() const { return done_; }

 private:
  class Lane;
  struct Job;

  Status copy_now(void* dst, const void* src, size_t nbytes) noexcept;
  Status add_lanes(size_t count);
  Status run_lanes(Job& job);
  void run_lane(Lane& lane, Job& job) noexcept;
  void work(Lane& lane, uint64_t begun) noexcept;

  int32_t gpu_;
  size_t added_nbytes_ = 0;
  std::promise<void> finished_;
  std::shared_future<void> done_;
  bool is_finished_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;

  // What the threads of all lanes but the first wait for.
  std::mutex mutex_;
  std::condition_variable changed_;
  Job* job_ = nullptr;
  uint64_t begun_ = 0;  // how many jobs so far
  size_t working_ = 0;  // threads that are not done with the job yet
  bool closing_ = false;
};

}  // namespace aoti_plugins::cuda
