#include "slim/status.h"

#include <cstddef>
#include <cstdio>

namespace aoti_plugins {
namespace {

// Trivial on purpose: a thread-local without a destructor costs nothing at thread exit and works in
// destructors of other thread-locals.
constexpr size_t kReasonNbytes = 4096;
thread_local char reason[kReasonNbytes] = {};

}  // namespace

Status fail_v(const char* format, va_list args) {
  // The arguments may point into the old reason, so format next to it first.
  char text[kReasonNbytes];
  std::vsnprintf(text, sizeof(text), format, args);
  __builtin_memcpy(reason, text, sizeof(text));
  reason[kReasonNbytes - 1] = '\0';
  return Status::kFailed;
}

Status fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  const Status status = fail_v(format, args);
  va_end(args);
  return status;
}

const char* last_failure() noexcept {
  return reason;
}

void clear_failure() noexcept {
  reason[0] = '\0';
}

}  // namespace aoti_plugins
