#pragma once

#include <cstdarg>
#include <cstdint>

#include "slim/export.h"

namespace aoti_plugins {

/// Result of an operation that has nothing to return. The reason of a failure is kept per thread.
enum class [[nodiscard]] Status : int32_t { kOk = 0, kFailed = 1 };

/// Records the reason of a failure for this thread and returns `Status::kFailed`.
///
/// @param format printf format of the reason; the text is cut at 4 kB.
AOTIP_CORE Status fail(const char* format, ...) __attribute__((format(printf, 1, 2), cold));

/// As `fail()`, with the arguments in a list.
AOTIP_CORE Status fail_v(const char* format, va_list args) __attribute__((cold));

/// The reason of this thread's most recent failure. Borrowed until the next failure on this thread;
/// an empty string when there was none since `clear_failure()`.
AOTIP_CORE const char* last_failure() noexcept;

/// Forgets the reason that `last_failure()` returns.
AOTIP_CORE void clear_failure() noexcept;

}  // namespace aoti_plugins

/// Leaves the current function with `Status::kFailed` when `expression` failed.
#define AOTIP_RETURN_IF_FAILED(expression)             \
  do {                                                 \
    if ((expression) != ::aoti_plugins::Status::kOk) { \
      return ::aoti_plugins::Status::kFailed;          \
    }                                                  \
  } while (0)

/// Leaves the current function with `Status::kFailed` when `pointer`, of something that was made or
/// looked for, is null: whoever did that recorded the reason.
#define AOTIP_RETURN_IF_NULL(pointer)         \
  do {                                        \
    if ((pointer) == nullptr) {               \
      return ::aoti_plugins::Status::kFailed; \
    }                                         \
  } while (0)

/// Leaves the current function with a reason when `condition` does not hold.
#define AOTIP_CHECK(condition, ...)             \
  do {                                          \
    if (__builtin_expect(!(condition), 0)) {    \
      return ::aoti_plugins::fail(__VA_ARGS__); \
    }                                           \
  } while (0)
