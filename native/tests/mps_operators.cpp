// The MPS runtime as a library for tests in Python (tests/mps_kernels/): all shims, and a program
// for them to run in.

#include <memory>

#include "mps/driver/stream.h"
#include "mps/session/mps_device.h"
#include "slim/device.h"

using namespace aoti_plugins;

extern "C" {

#define AOTIP_TEST_EXPORT __attribute__((visibility("default")))

/// Makes a program current on this thread, for good. 0 on success.
AOTIP_TEST_EXPORT int32_t aotip_test_begin() {
  static std::shared_ptr<mps::Stream> stream;
  static const Status registered = register_device(kMps, &mps::mps_device());
  if (registered != Status::kOk) {
    return 1;
  }
  stream = mps::Stream::create();
  if (stream == nullptr) {
    return 1;
  }
  static const mps::StreamScope scope(*stream);
  return 0;
}

/// Waits for the GPU, and begins anew after a fault. 0 on success.
AOTIP_TEST_EXPORT int32_t aotip_test_finish() {
  mps::Stream* stream = mps::current_stream();
  if (stream == nullptr) {
    (void)fail("no program was begun on this thread");
    return 1;
  }
  const bool good = stream->check_fault() == Status::kOk && stream->finish() == Status::kOk;
  stream->abandon();
  return good ? 0 : 1;
}

AOTIP_TEST_EXPORT const char* aotip_test_last_failure() {
  return last_failure();
}

}  // extern "C"
