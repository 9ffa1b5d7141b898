#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Copies host bytes, which may be a mapped file, to memory of one GPU.
///
/// Large ones go through several page-locked buffers that threads of their own fill, so that
/// reading the file and copying to the device overlap. The buffers are made on first use and kept,
/// since to page-lock memory takes longer than to fill it. One thread at a time.
class Uploader {
 public:
  explicit Uploader(int32_t gpu) noexcept;
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Copies, and waits until the bytes are there. The GPU's context must be current.
  Status copy(void* dst, const void* src, size_t nbytes) noexcept;

 private:
  class Lane;
  struct Job;

  Status add_lanes(size_t count);
  Status copy_in_lanes(Job& job, size_t count);
  void run_lane(Lane& lane, Job& job) noexcept;

  int32_t gpu_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace aoti_plugins::cuda
