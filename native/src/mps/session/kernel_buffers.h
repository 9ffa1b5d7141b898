#pragma once

#include <vector>

#include "delegate/kernel_clock.h"
#include "mps/driver/objc.h"
#include "mps/driver/stream.h"

namespace aoti_plugins::mps {

/// Times kernels by command buffers: each kernel has one of its own, of which Metal says when the
/// GPU worked on it.
class KernelBuffers final : public KernelClock {
 public:
  /// The stream outlives it.
  explicit KernelBuffers(Stream& stream) : stream_(stream) {}

  void start() noexcept override;
  void kernel_begins(const char* name) noexcept override;
  void kernel_ends() noexcept override;
  void stop(::executorch::runtime::EventTracer& tracer) noexcept override;

 private:
  struct Launch {
    const char* name;
    Owned commands;  ///< null: it gave the GPU nothing to do
  };

  Stream& stream_;
  std::vector<Launch> launches_;
};

}  // namespace aoti_plugins::mps
