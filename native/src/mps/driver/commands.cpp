#include "mps/driver/commands.h"

#include <algorithm>
#include <exception>

#include "mps/driver/gpu.h"
#include "mps/driver/metal_values.h"

namespace aoti_plugins::mps {
namespace {

/// Waits for a committed command buffer.
Status wait_for(Id commands) noexcept {
  const AutoreleasePool pool;
  send<void>(commands, selectors().waitUntilCompleted);
  if (send<UInteger>(commands, selectors().status) != kCommandBufferStatusError) {
    return Status::kOk;
  }
  try {
    return fail("the GPU stopped with an error: %s",
                error_text(send<Id>(commands, selectors().error)).c_str());
  } catch (const std::exception&) {
    return fail("the GPU stopped with an error");
  }
}

}  // namespace

Commands::~Commands() {
  abandon();
}

Status Commands::encoder(Id* ret) noexcept {
  if (!encoder_) {
    const AutoreleasePool pool;
    if (!commands_) {
      commands_ = Owned::retain(send<Id>(gpu().queue, selectors().commandBuffer));
      AOTIP_CHECK(static_cast<bool>(commands_), "the GPU's queue gives no command buffer");
    }
    encoder_ = Owned::retain(send<Id>(commands_.get(), selectors().computeCommandEncoder));
    AOTIP_CHECK(static_cast<bool>(encoder_), "the GPU gives no encoder for kernels");
  }
  *ret = encoder_.get();
  return Status::kOk;
}

Status Commands::kernel_encoded() noexcept {
  return ++kernels_ < kMaxKernels ? Status::kOk : commit();
}

Status Commands::end_own(Owned* ret) noexcept {
  if (commands_) {
    *ret = Owned::retain(commands_.get());
  }
  return commit();
}

void Commands::gpu_times(const Owned& commands, int64_t* ret_begin_ns,
                         int64_t* ret_end_ns) noexcept {
  constexpr double kNanoseconds = 1e9;
  const auto begin = send<double>(commands.get(), selectors().gpuStartTime);
  const auto end = send<double>(commands.get(), selectors().gpuEndTime);
  *ret_begin_ns = static_cast<int64_t>(begin * kNanoseconds);
  *ret_end_ns = static_cast<int64_t>(end * kNanoseconds);
}

void Commands::end_encoding() noexcept {
  if (encoder_) {
    send<void>(encoder_.get(), selectors().endEncoding);
    encoder_.reset();
  }
}

Status Commands::commit() noexcept {
  end_encoding();
  kernels_ = 0;
  if (!commands_) {
    return Status::kOk;
  }
  const Status status = in_flight_count_ == kMaxInFlight ? wait_for_oldest() : Status::kOk;
  send<void>(commands_.get(), selectors().commit);
  in_flight_[in_flight_count_++] = std::move(commands_);
  return status;
}

Status Commands::wait_for_oldest() noexcept {
  const Status status = wait_for(in_flight_[0].get());
  std::move(in_flight_.begin() + 1, in_flight_.begin() + static_cast<long>(in_flight_count_),
            in_flight_.begin());
  in_flight_[--in_flight_count_].reset();
  return status;
}

Status Commands::finish() noexcept {
  Status status = commit();
  while (in_flight_count_ > 0) {
    const Status one = wait_for_oldest();
    status = status == Status::kOk ? one : status;
  }
  return status;
}

void Commands::abandon() noexcept {
  end_encoding();
  kernels_ = 0;
  commands_.reset();
  while (in_flight_count_ > 0) {
    (void)wait_for_oldest();
  }
}

}  // namespace aoti_plugins::mps
