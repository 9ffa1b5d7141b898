#include "runner/failure.h"

#include <aoti_plugins/delegate.h>
#include <aoti_plugins/runner.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace aoti_plugins::runner {
namespace {

thread_local char message[8192] = {};

}  // namespace

void begin_call() noexcept {
  message[0] = '\0';
  aotip_delegate_clear_error();
}

int32_t failed(Error error, const char* format, ...) noexcept {
  char text[2048];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  const char* reason = aotip_delegate_last_error();
  std::snprintf(message, sizeof(message), reason[0] != '\0' ? "%s: %s" : "%s", text, reason);
  return error != Error::Ok ? static_cast<int32_t>(error) : static_cast<int32_t>(Error::Internal);
}

}  // namespace aoti_plugins::runner

const char* aotip_last_error(void) {
  return aoti_plugins::runner::message;
}
