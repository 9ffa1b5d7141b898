#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mps/driver/objc.h"
#include "slim/status.h"

namespace aoti_plugins::mps {

/// Work for the GPU, gathered in command buffers: many kernels go into one, which is committed when
/// it is full or when somebody waits. Kernels see what earlier ones wrote. For one thread at a
/// time; `open_gpu()` must have succeeded.
class Commands {
 public:
  /// How many kernels a command buffer takes, and how many of those may be on their way.
  static constexpr size_t kMaxKernels = 128;
  static constexpr size_t kMaxInFlight = 8;

  Commands() = default;
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// The open encoder for kernels, borrowed until the next commit.
  Status encoder(Id* ret) noexcept;

  /// One more kernel is encoded; commits a command buffer that is full.
  Status kernel_encoded() noexcept;

  /// What is encoded from here on goes into a command buffer of its own, until the next commit.
  Status begin_own() noexcept { return commit(); }

  /// Commits that command buffer, which is given to the caller too; none where nothing was encoded.
  Status end_own(Owned* ret) noexcept;

  /// When the GPU worked on a command buffer that it is done with, in nanoseconds of the steady
  /// clock.
  static void gpu_times(const Owned& commands, int64_t* ret_begin_ns, int64_t* ret_end_ns) noexcept;

  /// Whether there is work that nobody has waited for.
  bool pending() const noexcept { return commands_ || in_flight_count_ > 0; }

  /// Commits what is encoded and waits for everything; fails when the GPU reports an error.
  Status finish() noexcept;

  /// Drops what is not committed yet and waits for the rest, whatever comes of it.
  void abandon() noexcept;

 private:
  void end_encoding() noexcept;
  Status commit() noexcept;
  Status wait_for_oldest() noexcept;

  Owned commands_;
  Owned encoder_;
  size_t kernels_ = 0;
  std::array<Owned, kMaxInFlight> in_flight_;
  size_t in_flight_count_ = 0;
};

}  // namespace aoti_plugins::mps
