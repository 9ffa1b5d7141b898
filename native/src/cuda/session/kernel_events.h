#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "cuda/driver/event.h"
#include "cuda/driver/stream.h"
#include "delegate/kernel_clock.h"

namespace aoti_plugins::cuda {

/// Times kernels by events of the stream that they run on.
///
/// The GPU is held until the call has given it all its work, for `kMostHeldMs` at most: else it
/// would be idle between short kernels, waiting for the host, and the wait would be in their times.
class KernelEvents final : public KernelClock {
 public:
  /// Longer waits of the GPU are those of a call that waits for the GPU itself: always, or as it
  /// loads its kernels. After two of these in a row nothing is held.
  static constexpr int kMostHeldMs = 20;
  static constexpr int kMostOverruns = 2;

  /// The stream outlives it.
  explicit KernelEvents(Stream& stream) : stream_(stream) {}
  ~KernelEvents() override;

  /// Whether a call is watched.
  bool watches() const noexcept { return watches_; }

  void start() noexcept override;
  void kernel_begins(const char* name) noexcept override;
  void kernel_ends() noexcept override;
  void stop(::executorch::runtime::EventTracer& tracer) noexcept override;

  /// The call has called all of its kernels: lets the GPU begin.
  void release() noexcept;

 private:
  struct Launch {
    const char* name;
    size_t begin;  ///< index of an event
    size_t end;
  };

  static void hold(void* self) noexcept;
  Status record(size_t* ret) noexcept;
  Status begin(const char* name) noexcept;
  Status start_clock() noexcept;
  Status tell(::executorch::runtime::EventTracer& tracer) noexcept;
  Status elapsed_ns(size_t event, int64_t* ret) const noexcept;
  void give_up() noexcept;

  Stream& stream_;
  bool watches_ = false;
  bool failed_ = false;       // nothing more of this call is timed
  int overruns_ = 0;          // of the last holds, one after the other
  int64_t begin_ns_ = 0;      // when the first event was reached
  std::deque<Event> events_;  // kept for the next call
  size_t used_ = 0;
  std::vector<Launch> launches_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;      // the stream has a hold that is not over
  bool released_ = false;  // by the host
  bool ran_over_ = false;  // the hold ended by itself
};

}  // namespace aoti_plugins::cuda
